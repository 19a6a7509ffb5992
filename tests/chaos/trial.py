"""Running a scenario: builds under faults until enough faults were injected, each checked at its end."""

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.chaos import judge
from tests.chaos.injectors import INJECTORS, POISON, SECOND_BUILD, Scene
from tests.chaos.outputs import OUTPUTS, UnavailableError
from tests.chaos.proxy import Weather
from tests.chaos.scenarios import Scenario
from tests.chaos.stage import MACHINES, MARKER, Stage

OK, FAILED, REFUSED, UNFINISHED = 0, 1, 2, 3
"""Exit codes of the command."""

AGAIN = frozenset({UNFINISHED, -9})
"""Exit codes after which the command is run again: unfinished, or killed."""

MAX_ROUNDS, MAX_ATTEMPTS = 20, 40
ATTEMPT_S, VERIFY_S, REFUSED_S, POLL_S = 300, 200, 5.0, 0.1
MAX_CRASHES = 4 * MACHINES
"""Maximum number of crashes by a poisoned image: four in each work item into which its block may be divided."""


@dataclass
class Result:
    """The result of a scenario. ``failed``: samples that were recorded as failed and made later."""

    name: str
    faults: dict[str, int] = field(default_factory=dict)
    builds: int = 0
    attempts: int = 0
    failed: int = 0
    seconds: float = 0.0
    skipped: str = ""
    problems: list[str] = field(default_factory=list)

    def verdict(self) -> str:
        """Return the result in a few words."""
        if self.skipped:
            return f"skipped: {self.skipped}"
        return f"FAILED: {'; '.join(self.problems)}" if self.problems else "complete, sha256 identical"

    def line(self) -> str:
        """Return a progress line."""
        return f"{self.name}: {self.verdict()}, after {sum(self.faults.values())} faults, {self.seconds:.0f} s"


def run_scenario(stage: Stage, scenario: Scenario, faults: int, seed: int) -> Result:
    """Build into new outputs under faults until ``faults`` faults have been injected."""
    start, result = time.monotonic(), Result(scenario.name)
    stage.log.scenario = scenario.name
    stage.reference(scenario.selection)
    try:
        while stage.log.count() < faults and result.builds < MAX_ROUNDS and not result.problems:
            result.builds += 1
            random = Random(f"{seed} {scenario.name} {result.builds}")
            with _scene(stage, scenario, random, result.builds) as scene:
                _Trial(stage, scenario, scene, faults, result).run()
    except UnavailableError as error:
        result.skipped = str(error)
    result.faults = dict(sorted(stage.log.kinds(scenario.name).items()))
    if not result.skipped and not result.problems and stage.log.count() < faults:
        result.problems.append(f"only {stage.log.count()} of {faults} faults could be injected")
    result.seconds = time.monotonic() - start
    return result


@contextmanager
def _scene(stage: Stage, scenario: Scenario, random: Random, number: int) -> Iterator[Scene]:
    """Provide all machines, a copy of the source, and an empty output."""
    machines = stage.machines(scenario.engine)
    machines.restore()
    name = f"{scenario.name.replace(' ', '-').replace(',', '')}-{number}"
    source = shutil.copytree(stage.source, stage.work / f"{name}-source")
    size = sum(file.stat().st_size for file in stage.reference(scenario.selection).rglob("*"))
    with OUTPUTS[scenario.output](stage.work, name, stage.store, 2 * size + 2**22) as output:
        try:
            yield Scene(random, machines, stage.proxy, source, output)
        finally:
            stage.proxy.disturb(Weather())
            stage.poison.unlink(missing_ok=True)
            machines.resume()
    shutil.rmtree(source)


class _Trial:
    """One build under faults, from an empty output to the final comparison."""

    def __init__(self, stage: Stage, scenario: Scenario, scene: Scene, faults: int, result: Result) -> None:
        self._stage = stage
        self._scenario = scenario
        self._scene = scene
        self._faults = faults
        self._result = result
        self._injected = 0
        self._shards = len(list(stage.reference(scenario.selection).glob("manifest/*")))
        self._log = stage.work / f"{scene.source.name}.log"

    def run(self) -> None:
        """Build, repair the source if samples failed, and compare."""
        self._start_disturbances()
        code = self._build()
        self._stage.proxy.disturb(Weather())
        if self._scenario.mends and code in {OK, FAILED}:
            self._check_failures()
            self._repair()
            self._injected = self._scenario.each  # inject no more faults
            code = self._build("--retry-failed")
        if code == OK:
            self._compare()
        elif not self._result.problems:
            self._problem(f"the build ended with exit code {code}: {self._output()}")

    def _start_disturbances(self) -> None:
        scenario = self._scenario
        seed = f"{self._scene.random.getrandbits(64)}"
        self._stage.proxy.disturb(Weather(scenario.weather, scenario.rate, seed, self._enough))
        if scenario.poisoned:
            self._scene.touched.update(self._stage.poisoned)
            self._stage.poison.with_suffix(".crashes").unlink(missing_ok=True)
            self._stage.poison.write_bytes(MARKER)

    def _build(self, *more: str) -> int:
        """Run the command until it need not be run again. Return its last exit code."""
        for _ in range(MAX_ATTEMPTS):
            codes = self._attempt(*more)
            self._result.attempts += len(codes)
            accepted = codes if "another run" not in self._output() else [code for code in codes if code != REFUSED]
            if not accepted and self._scenario.builds > 1:
                self._problem(f"all builds were refused: {self._output()}")
            if self._result.problems:
                return codes[0]
            if accepted and not AGAIN & set(accepted):
                return max(accepted)
            self._between()
            time.sleep(0.0 if accepted else REFUSED_S)
        self._problem(f"unfinished after {MAX_ATTEMPTS} attempts: {self._output()}")
        return codes[0]

    def _attempt(self, *more: str) -> list[int]:
        """Start the scenario's number of builds, inject faults while they run, and return their exit codes."""
        scene = self._scene
        source = self._stage.source_url if self._scenario.source == "s3" else str(scene.source)
        scene.drivers = [
            self._stage.build(
                self._log.with_suffix(f".{n}.log"),
                self._scenario.selection,
                scene.machines,
                source,
                scene.output.location,
                *more,
            )
            for n in range(self._scenario.builds)
        ]
        if self._scenario.builds > 1:
            self._stage.log.add(SECOND_BUILD, f"driver {scene.drivers[-1].pid}")
        try:
            self._disturb(time.monotonic() + ATTEMPT_S)
        finally:
            scene.machines.resume()
            for driver in scene.running():
                driver.kill()
        return [driver.wait() for driver in scene.drivers]

    def _disturb(self, limit: float) -> None:
        """Inject faults at the scenario's pace until all builds have ended."""
        scene, kinds = self._scene, [kind for kind in self._scenario.injectors if INJECTORS[kind].running]
        due = self._due()
        while scene.running():
            if time.monotonic() > limit:
                self._problem(f"still running after {ATTEMPT_S} s: {self._output()}")
                return
            if (
                kinds
                and not self._enough()
                and scene.output.committed() >= due
                and self._inject(scene.random.choice(kinds))
            ):
                due = self._due()
            time.sleep(POLL_S)

    def _due(self) -> float:
        """Return the number of finished shards at which the next fault is injected."""
        return self._scene.output.committed() + self._scene.random.uniform(*self._scenario.pace) * self._shards

    def _between(self) -> None:
        """Damage up to three files while no build runs."""
        kinds = [kind for kind in self._scenario.injectors if not INJECTORS[kind].running]
        for _ in range(self._scene.random.randint(1, 3) if kinds else 0):
            self._inject(self._scene.random.choice(kinds))

    def _inject(self, kind: str) -> bool:
        target = None if self._enough() else INJECTORS[kind].inject(self._scene)
        if target is not None:
            self._stage.log.add(kind, target)
            self._injected += 1
        return target is not None

    def _enough(self) -> bool:
        return self._injected >= self._scenario.each or self._stage.log.count() >= self._faults

    def _check_failures(self) -> None:
        """Check that only touched images have failed, and that poisoned ones failed after few crashes."""
        scene = self._scene
        copy = self._stage.work / f"{scene.source.name}-copy"
        failed, problems = judge.failures(scene.output.fetched(copy), scene.touched, self._scenario.poisoned)
        self._result.failed += failed
        for problem in problems:
            self._problem(problem)
        shutil.rmtree(copy, ignore_errors=True)
        if self._scenario.poisoned:
            crashes = Counter(self._stage.poison.with_suffix(".crashes").read_text().splitlines())
            for name in crashes.elements():
                self._stage.log.add(POISON, name)
            for name in self._stage.poisoned:
                if not 0 < crashes[name] <= MAX_CRASHES:
                    self._problem(f"{name} crashed {crashes[name]} workers, allowed are 1 to {MAX_CRASHES}")

    def _repair(self) -> None:
        """Remove the cause of the failures."""
        self._stage.poison.unlink(missing_ok=True)
        for current, original in self._scene.moved.items():
            current.rename(original)

    def _compare(self) -> None:
        """Verify the finished data set, and compare its bytes with those of the undisturbed build."""
        scene = self._scene
        log = self._log.with_suffix(".verify.log")
        verifying = self._stage.start(log, "verify", scene.output.location)
        try:
            if verifying.wait(VERIFY_S):
                self._problem(f"verify found faults: {_end_of(log)}")
        except subprocess.TimeoutExpired:
            verifying.kill()
            self._problem(f"verify is still running after {VERIFY_S} s")
        copy = self._stage.work / f"{scene.source.name}-copy"
        reference = self._stage.reference(self._scenario.selection)
        for problem in judge.differences(scene.output.fetched(copy), reference):
            self._problem(problem)
        shutil.rmtree(copy, ignore_errors=True)

    def _problem(self, text: str) -> None:
        self._result.problems.append(f"build {self._result.builds}: {text}")

    def _output(self) -> str:
        """Return the last lines of the commands' output."""
        return " | ".join(_end_of(self._log.with_suffix(f".{n}.log")) for n in range(self._scenario.builds))


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:])[-600:]
