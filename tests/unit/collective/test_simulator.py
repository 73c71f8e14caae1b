"""Thousands of schedules of faults never break a promise; planted bugs are found."""

import pytest

from hydra_node.collective import certificate as certificates
from hydra_node.collective import messages as msg
from hydra_node.collective.events import Action, Applied, Apply, Event, LeaveRequested, Role
from hydra_node.collective.member import Member
from hydra_node.collective.options import Options
from hydra_node.collective.proposer import Proposal, Proposer
from hydra_node.collective.record import StepRecord
from hydra_node.collective.round import Round
from hydra_node.collective.schedule import Cut, Death, Pause, Schedule
from hydra_node.collective.simulator import Violation, World, run
from hydra_node.collective.slot import Slot
from hydra_node.collective.workload import CommittedStep


@pytest.mark.parametrize("block", range(10))
def test_schedules_of_faults_break_no_promise(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        run(Schedule.draw(seed, largest=5))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("block", range(20))
def test_many_schedules_of_faults_break_no_promise(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        run(Schedule.draw(seed))


def test_a_seed_gives_the_same_run_again() -> None:
    assert run(Schedule.draw(17)) == run(Schedule.draw(17))


def test_a_calm_swarm_stays_in_its_first_view() -> None:
    report = run(Schedule(seed=1, peers=4, steps=10))
    assert report.views == 1 and report.seconds < 5


@pytest.mark.parametrize("victim", [0, 1, 3])
def test_a_death_after_any_message_costs_little_time(victim: int) -> None:
    for after in range(1, 120, 3):
        report = run(Schedule(seed=after, peers=4, steps=3, deaths=(Death(victim, after, False, None),)), options=THREE)
        assert report.waits or report.seconds < 12


def test_a_paused_leader_that_returns_is_fenced_and_comes_back() -> None:
    report = run(Schedule(seed=5, peers=4, steps=6, pauses=(Pause(0, 0.3, 12.0),)))
    assert report.views >= 2


def test_a_minority_waits_and_nobody_splits_off() -> None:
    left, right = frozenset({0, 1}), frozenset({2, 3, 4})
    cuts = (Cut(left, right, 0.3, 20.0), Cut(right, left, 0.3, 20.0))
    run(Schedule(seed=6, peers=5, steps=5, cuts=cuts))


def test_two_of_three_gone_is_a_named_wait() -> None:
    deaths = (Death(1, 30, False, None), Death(2, 30, False, None))
    assert run(Schedule(seed=7, peers=3, steps=9, deaths=deaths, limit=60.0), options=THREE).waits


@pytest.mark.parametrize(("peers", "banned"), [(4, 2), (4, 0), (2, 1), (2, 0)])
def test_a_banned_member_is_voted_out_and_not_let_in_again(peers: int, banned: int) -> None:
    name = f"peer{banned:02d}"

    class Judged(Member):
        def handle(self, event: Event, now: float) -> list[Action]:
            # members hear of the ban at different times
            hears_at = 0.5 + 0.3 * int(self.context.me[-1])
            self.context.is_banned = lambda peer: peer == name and now > hears_at
            return super().handle(event, now)

    world = World(Schedule(seed=11, peers=peers, steps=12), Judged)
    world.run()
    other = world.machines["peer01" if banned != 1 else "peer00"].member
    assert other.log is not None and name not in other.log.view.members
    assert any(getattr(entry.record, "removed", {}).get(name) == "banned" for entry in other.log.lineage)
    assert world.machines[name].member.role is Role.EJECTED


@pytest.mark.parametrize("victim", [0, 1])
def test_one_of_two_that_dies_and_returns_stands_in_for_itself(victim: int) -> None:
    for after in range(1, 60):
        death = Death(victim, after, after % 2 == 0, 1.5)
        report = run(Schedule(seed=after, peers=2, steps=5, deaths=(death,), limit=60.0), options=TWO)
        assert not report.waits


def test_numbers_that_are_not_finite_are_rejected_by_name() -> None:
    schedule = Schedule(seed=8, peers=4, steps=3, bad=(2,))
    world = World(schedule)
    world.run()
    log = world.machines["peer00"].member.log
    assert log is not None
    entries = log.since(1, 10**9) or []
    assert {peer for entry in entries for peer in getattr(entry.record, "rejected", {})} == {"peer02"}


def test_a_latecomer_is_admitted_while_nobody_stalls() -> None:
    calm = run(Schedule(seed=9, peers=4, steps=30))
    joined = run(Schedule(seed=9, peers=4, steps=30, late=1))
    assert joined.views == 2 and joined.seconds < 1.5 * calm.seconds


def test_a_member_that_leaves_is_replaced_by_a_view_without_it() -> None:
    class Leaver(Member):
        def handle(self, event: Event, now: float) -> list[Action]:
            actions = super().handle(event, now)
            if self.context.me == "peer00" and isinstance(event, Applied) and event.step == 1:
                actions += super().handle(LeaveRequested(), now)
            return actions

    world = World(Schedule(seed=10, peers=4, steps=5, limit=30.0), Leaver)
    with pytest.raises(Violation, match=r"'peer00': \(True, [23], 'left'\)"):
        # the world waits for all; the one that left is the only one not to finish
        world.run()
    others = [machine for name, machine in world.machines.items() if name != "peer00"]
    assert all(machine.step == 5 and machine.member.done for machine in others)


TWO = Options(min_members=2)
THREE = Options(min_members=3)


# planted bugs: each is one line that is wrong


class Unfenced(Slot):
    """Takes part in attempts that it promised to refuse."""

    def _stale(self, attempt: int) -> bool:
        return False

    def _take_plan(self, sender: str, plan: msg.Plan, now: float) -> None:
        super()._take_plan(sender, plan, now)
        self.acceptor.promised = min(self.acceptor.promised, plan.attempt)

    def _vote(self) -> None:
        promised, self.acceptor.promised = self.acceptor.promised, -1
        super()._vote()
        self.acceptor.promised = max(promised, self.acceptor.promised)


class Forgetful(Proposer):
    """Does not ask what was voted before."""

    def _voted_value(self, proposal: Proposal) -> None:
        return None


class Hasty(Slot):
    """Commits on its own vote."""

    def _certified(self, votes: int) -> bool:
        return votes >= 1


class Eager(Member):
    """Has the workload apply what it merely holds."""

    def _settle(self, now: float) -> None:
        super()._settle(now)
        if self.slot is not None and self.log is not None:
            for record, result in self.slot.staged.values():
                if isinstance(record, StepRecord) and record.step == self.log.step:
                    proof = certificates.Certificate(b"", 0, 0, 0, {})
                    self._actions.append(Apply(CommittedStep(record, proof, result, b"")))


class ArrivalOrder(Slot):
    """Adds up in the order in which contributions came."""

    def _summation_order(self, current: Round) -> tuple[str, ...]:
        assert current.record is not None
        return tuple(peer for peer in current.shards if peer in current.record.contributors)


class TwoLeaders(Proposer):
    """Takes over without the promises of a majority."""

    def _promised(self, proposal: Proposal) -> bool:
        return True

    def _acting(self) -> bool:
        return self.rank <= 1

    def _alive(self) -> int:
        return len(self.view.members)


class Unlocked(Slot):
    """Tells a new proposer nothing of what it voted."""

    def _take_prepare(self, sender: str, message: msg.Prepare) -> None:
        self.acceptor.voted = None
        super()._take_prepare(sender, message)


class OwnSet(Slot):
    """Leaves out of its shard whoever was late here, whatever was agreed."""

    def _summation_order(self, current: Round) -> tuple[str, ...]:
        order = super()._summation_order(current)
        return order[1:] if self.context.me == self.view.members[-1] and len(order) > 2 else order


def with_slot(kind: type[Slot]) -> type[Member]:
    return type("Planted", (Member,), {"slot_class": kind})


def with_proposer(kind: type[Proposer]) -> type[Member]:
    return type("Planted", (Member,), {"proposer_class": kind})


BUGS = {
    "no fence": with_slot(Unfenced),
    "no vote adoption": with_proposer(Forgetful),
    "votes kept from a new proposer": with_slot(Unlocked),
    "commit without a majority": with_slot(Hasty),
    "apply before the certificate": Eager,
    "sum in arrival order": with_slot(ArrivalOrder),
    "two leaders": with_proposer(TwoLeaders),
    "another set for one shard": with_slot(OwnSet),
}


def harsh(seed: int) -> list[Schedule]:
    """Schedules that hurt: a leader that is cut off or stops between deciding and telling."""
    drawn = Schedule.draw(seed, largest=5)
    start = 0.3 + seed * 0.02
    mute = Cut(frozenset({0}), frozenset({1, 2}), start, start + 9)
    one, two = frozenset({1}), frozenset({2})
    apart = (Cut(one, two, start, start + 5), Cut(two, one, start, start + 5))
    return [
        Schedule(seed, 3, 3, delay=0.05, cuts=(mute, *apart), limit=60.0),
        drawn,
        Schedule(seed, 5, 4, loss=0.15, lossy_until=20.0, pauses=(Pause(0, 0.5 + seed % 20 / 10, 9.0),), limit=60.0),
    ]


# where a bug shows rarely, the search begins near a schedule that is known to show it
FIRST = {"no fence": 29}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    for seed in range(FIRST.get(bug, 0), 300):
        for schedule in harsh(seed):
            try:
                run(schedule, BUGS[bug])
            except Violation:
                return
    pytest.fail(f"{bug!r} was not found")
