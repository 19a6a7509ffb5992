#!/usr/bin/env bash
# Builds a data set on Slurm. Starts one Ray node on each machine of the job, and runs the command on the first machine.
#
#   SOURCE=/scratch/val OUT=/scratch/imagenet-c sbatch infra/slurm.sh --only noise,fog
#
# Arguments of the script are passed to `robustshards build`. `ray` and `robustshards` must be on PATH on all machines: submit
# with the virtual environment active, from a file system that all machines can access. Environment variables (defaults in brackets):
#   SOURCE, OUT    the photographs and the data set (required)
#   RECIPE         the recipe to build (imagenet-c)
#   HEAD_IP        address of the first machine (the first one that it reports)
#   PORT           port of Ray on the first machine (6379)
#   START_S        seconds to wait for all machines to start, before the job is requeued (300)
#   STOP_S         seconds that the command gets to stop at the time limit, before it is killed (60)
#   MAX_RESTARTS   how often an unfinished build is requeued (20)
#   DRY_RUN        if set to any value: only print what would run
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

: "${SOURCE:?set SOURCE to the folder or URL of the photographs}" "${OUT:?set OUT to the folder or URL of the data set}"
RECIPE=${RECIPE:-imagenet-c}
PORT=${PORT:-6379}
START_S=${START_S:-300}
STOP_S=${STOP_S:-60}
MAX_RESTARTS=${MAX_RESTARTS:-20}

readonly UNFINISHED=3 INTERRUPTED=130

if [[ -n ${DRY_RUN:-} ]]; then
    nodes=${SLURM_JOB_NUM_NODES:-8} cpus=${SLURM_CPUS_PER_TASK:-32} head=first-machine HEAD_IP=${HEAD_IP:-192.0.2.1}
else
    : "${SLURM_JOB_ID:?is not set: submit this script with sbatch, or set DRY_RUN=1 to print its commands}"
    for program in ray robustshards; do
        [[ -n $(type -P "$program") ]] || {
            echo "$program is not on PATH: submit with the virtual environment active, from a folder that all machines can access" >&2
            exit 2
        }
    done
    nodes=$SLURM_JOB_NUM_NODES cpus=$SLURM_CPUS_PER_TASK
    mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    head=${machines[0]}
    if [[ -z ${HEAD_IP:-} ]]; then
        read -r HEAD_IP _ < <(hostname --all-ip-addresses)
    fi
    # Each job has its own folder, so that jobs on one machine do not collide, and a token, because Ray runs any code that it is sent.
    RAY_TMPDIR=${RAY_TMPDIR:-/tmp/ray-$SLURM_JOB_ID}
    RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    export RAY_TMPDIR RAY_AUTH_TOKEN RAY_AUTH_MODE=token
fi
# Keep images in huge pages and reuse freed memory, which makes workers faster (docs/speed.md).
kept=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=134217728
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1:$kept}
# The Ray nodes are stopped after the command has ended, so they need not wait for running work.
export RAY_USAGE_STATS_ENABLED=0 RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0

address=$HEAD_IP:$PORT
# `timeout 0` sets no time limit. It forwards SIGTERM, and kills the command if that has not ended after --kill-after seconds.
machine=(timeout --kill-after=60 0 srun --cpus-per-task="$cpus" --kill-on-bad-exit=1)
# The object store can be small: it holds listings and counts, never images.
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
            echo "build unfinished (exit code $status): requeueing job $SLURM_JOB_ID" >&2
            scontrol requeue "$SLURM_JOB_ID"
        fi
    fi
    exit "$status"
}
trap finish EXIT
# Stop the command. Finished shards are kept; the requeued job makes the rest.
stop() {
    [[ -z $stopping ]] || return 0
    stopping=yes
    [[ -n $driver ]] || exit "$INTERRUPTED"
    kill -TERM "$driver" 2>/dev/null || true
}
# Slurm sends SIGTERM before the time limit and on preemption.
trap stop TERM

running() { kill -0 "$1" 2>/dev/null; }

# Wait for machines, and start those again that have given up: many that import Ray from one folder need more than its own 30 s.
wait_or_requeue() {
    if ((SECONDS > START_S)); then
        echo "$1 did not start within $START_S s; see Ray's logs in $RAY_TMPDIR on each machine, or set START_S higher" >&2
        exit "$UNFINISHED"
    fi
    sleep 1
    if ! running "${steps[0]}"; then
        echo "Ray on $head ended; starting it again" >&2
        "${start_head[@]}" &
        steps[0]=$!
    elif ((${#steps[@]} > 1)) && ! running "${steps[1]}"; then
        echo "Ray ended on another machine; starting it again" >&2
        "${start_others[@]}" &
        steps[1]=$!
    fi
}

"${start_head[@]}" &
steps+=($!)
until ray health-check --address "$address" >/dev/null 2>&1; do wait_or_requeue "Ray on $head"; done
if ((nodes > 1)); then
    "${start_others[@]}" &
    steps+=($!)
fi
until (($(ray status --address "$address" 2>/dev/null | awk '/^Pending/ {exit} / node_/ {n++} END {print n + 0}') == nodes)); do
    wait_or_requeue "one of the $nodes machines"
done

"${build[@]}" &
driver=$!
while running "$driver"; do
    # A lost machine is not replaced within a job, so stop; the requeued job gets all its machines again.
    for step in "${steps[@]}"; do running "$step" || stop; done
    sleep 1
done
wait "$driver"
