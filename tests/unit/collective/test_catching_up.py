"""Somebody catches up: each entry comes to it about once, however far behind it is and however long applying takes."""

from hydra_node.collective import events as ev
from hydra_node.collective import messages as msg
from hydra_node.collective.schedule import Death, Schedule
from hydra_node.collective.simulator import Machine, World


class Watched(World):
    """Counts what is sent to those who catch up."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.asked = 0
        self.answers: list[int] = []
        self.entries = 0

    def _transmit(self, source: Machine, action: ev.Send) -> None:
        message = action.message
        if isinstance(message, msg.Committed):
            self.answers.append(len(message.payload))
            self.entries += len(msg.unpack_entries(message.payload)) if message.payload else 0
        elif isinstance(message, msg.Status) and message.ask:
            self.asked += 1
        super()._transmit(source, action)


def test_a_member_that_returns_far_behind_is_sent_each_entry_once_or_twice() -> None:
    world = Watched(Schedule(seed=21, peers=4, steps=120, deaths=(Death(2, 150, False, 15.0),)))
    report = world.run()
    log = world.machines["peer00"].member.log
    assert log is not None and report.views == 3
    assert world.entries <= 2 * log.height
    assert world.asked <= log.height
