#!/usr/bin/env bash
# A data set built on Slurm: one Ray node on each machine, the command on the first, which runs this script.
#
#   SOURCE=/scratch/val OUT=/scratch/imagenet-c sbatch infra/slurm.sh --only noise,fog
#
# What follows the script's name goes to `robustshards build`. `ray` and `robustshards` must be on PATH here and on the
# nodes: submit with the virtual environment active, on a file system that all of them see. In the environment:
#   SOURCE, OUT    the photographs and the data set (required)
#   RECIPE         what to build (imagenet-c)
#   HEAD_IP        the first machine's address, where its first one is not the network to use
#   PORT           of Ray on the first machine (6379)
#   START_S        seconds for all machines to come up (300)
#   STOP_S         seconds for the command to end when the time is over, before it is killed (60)
#   MAX_RESTARTS   how often an unfinished build is queued again (20)
#   DRY_RUN        anything: only print what would run
#
#SBATCH --job-name=robustshards
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --mem-per-cpu=1G
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@180

set -euo pipefail

: "${SOURCE:?the photographs}" "${OUT:?the folder of the data set}"
RECIPE=${RECIPE:-imagenet-c}
PORT=${PORT:-6379}
START_S=${START_S:-300}
STOP_S=${STOP_S:-60}
MAX_RESTARTS=${MAX_RESTARTS:-20}

readonly UNFINISHED=3 INTERRUPTED=130

if [[ -n ${DRY_RUN:-} ]]; then
    nodes=${SLURM_JOB_NUM_NODES:-8} cpus=${SLURM_CPUS_PER_TASK:-32} head=first-machine HEAD_IP=${HEAD_IP:-192.0.2.1}
else
    : "${SLURM_JOB_ID:?run this with sbatch, or with DRY_RUN=1}"
    nodes=$SLURM_JOB_NUM_NODES cpus=$SLURM_CPUS_PER_TASK
    mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    head=${machines[0]}
    if [[ -z ${HEAD_IP:-} ]]; then
        read -r HEAD_IP _ < <(hostname --all-ip-addresses)
    fi
    # Folders of its own, so that two jobs on one machine do not meet; a token, since Ray runs the code of all who reach it.
    RAY_TMPDIR=${RAY_TMPDIR:-/tmp/ray-$SLURM_JOB_ID}
    RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    export RAY_TMPDIR RAY_AUTH_TOKEN RAY_AUTH_MODE=token
fi
# Images in huge pages of memory, which are kept for the next: the workers are three per cent faster.
kept=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=134217728
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1:$kept}
# The nodes are told to end when the command has ended: there is no work to wait for.
export RAY_USAGE_STATS_ENABLED=0 RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0

address=$HEAD_IP:$PORT
# `timeout 0` limits nothing; told to end, it passes that on, and kills what has not ended some time later.
machine=(timeout --kill-after=60 0 srun --cpus-per-task="$cpus" --kill-on-bad-exit=1)
# Only listings and counts travel through the object store, never an image.
ray_start=(ray start --num-cpus="$cpus" --object-store-memory=104857600 --block)
start_head=(
    "${machine[@]}" --nodes=1 --ntasks=1 --nodelist="$head"
    "${ray_start[@]}" --head --node-ip-address="$HEAD_IP" --port="$PORT" --include-dashboard=false
)
start_others=(
    "${machine[@]}" --nodes=$((nodes - 1)) --ntasks=$((nodes - 1)) --exclude="$head"
    "${ray_start[@]}" --address="$address"
)
build=(
    timeout --kill-after="$STOP_S" 0
    robustshards build "$RECIPE" --source "$SOURCE" --out "$OUT" --address "$address" --workers $((nodes * cpus)) "$@"
)

if [[ -n ${DRY_RUN:-} ]]; then
    printf '%q ' "${start_head[@]}" && echo '&'
    ((nodes == 1)) || { printf '%q ' "${start_others[@]}" && echo '&'; }
    printf '%q ' "${build[@]}" && echo
    exit
fi

steps=() driver="" stopping=""

# shellcheck disable=SC2329 # the trap below calls it
finish() {
    local status=$?
    trap '' TERM
    ((${#steps[@]} == 0)) || kill -TERM "${steps[@]}" 2>/dev/null || true
    wait
    if ((status != 0)) && { [[ -n $stopping ]] || ((status == UNFINISHED || status == INTERRUPTED)); }; then
        if ((${SLURM_RESTART_COUNT:-0} < MAX_RESTARTS)); then
            echo "unfinished ($status): queued again" >&2
            scontrol requeue "$SLURM_JOB_ID"
        fi
    fi
    exit "$status"
}
trap finish EXIT
# What is committed stays, the rest comes later.
stop() {
    [[ -z $stopping ]] || return 0
    stopping=yes
    [[ -n $driver ]] || exit "$INTERRUPTED"
    kill -TERM "$driver" 2>/dev/null || true
}
# Slurm's word that the time is over, or that others need the machines.
trap stop TERM

all_up() {
    local step
    for step in "${steps[@]}"; do kill -0 "$step" 2>/dev/null || return 1; done
}

not_yet() {
    if ! all_up || ((SECONDS > START_S)); then
        echo "$1 did not come up in $SECONDS seconds; Ray's logs are in $RAY_TMPDIR on each machine" >&2
        exit 1
    fi
    sleep 1
}

"${start_head[@]}" &
steps+=($!)
until ray health-check --address "$address" >/dev/null 2>&1; do not_yet "Ray on $head"; done
if ((nodes > 1)); then
    "${start_others[@]}" &
    steps+=($!)
fi
until (($(ray status --address "$address" 2>/dev/null | awk '/^Pending/ {exit} / node_/ {n++} END {print n + 0}') == nodes)); do
    not_yet "one of $nodes machines"
done

"${build[@]}" &
driver=$!
while kill -0 "$driver" 2>/dev/null; do
    # Nothing replaces a machine here: queued again, the job gets as many as before.
    all_up || stop
    sleep 1
done
wait "$driver"
