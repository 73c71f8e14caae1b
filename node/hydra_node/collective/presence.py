"""Who of the view is there: what is heard of each member, and which runs of it have ended."""

from hydra_node.collective.context import Context
from hydra_node.collective.record import View


class Presence:
    """Keeps `context.down`: members that were silent for too long, or whose run has ended."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._heard: dict[str, float] = {}
        self._fallen: dict[str, int] = {}
        self._last_now = float("-inf")

    def time(self, now: float) -> None:
        """Notices that this process was stopped or starved: that it heard nobody then says nothing about them."""
        if now - self._last_now > self._context.options.silence / 2:
            self._heard = dict.fromkeys(self._heard, now)
        self._last_now = now

    def heard(self, peer: str, now: float) -> None:
        """A sign of life."""
        self._heard[peer] = now

    def enter(self, view: View, now: float) -> None:
        """From now on these members count; for who is new among them, silence begins now."""
        self._heard = {peer: self._heard.get(peer, now) for peer in view.members}
        self._context.down &= set(view.members)

    def watch(self, view: View, now: float) -> None:
        """Counts as gone who has said nothing for too long."""
        for peer in view.members:
            silent = now - self._heard.setdefault(peer, now) > self._context.options.silence
            if silent and peer != self._context.me:
                self._context.down.add(peer)

    def note_run(self, view: View, peer: str, incarnation: int) -> None:
        """A member that says something is alive; a new run of it means that the old one, who voted, is not."""
        known = view.incarnation(peer)
        if known is None:
            return
        if incarnation > known:
            self._context.down.add(peer)
            self._fallen[peer] = incarnation
        elif incarnation == known and self._fallen.get(peer, 0) <= known:
            self._context.down.discard(peer)
