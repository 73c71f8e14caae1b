"""Posting the journal: each round's segment into the store, its digest onto the chain, beside the training."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.reverts import Reverted
from hydra_node.errors import HydraError
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.training.journal import Journal, Posted

Reporter = Callable[[str, str, dict[str, Any]], None]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0
_FINAL_REVERTS = frozenset({"NotTrainer", "NotRunning"})


class PostRefused(HydraError):
    """The chain takes no more records of this trainer in this job."""


class Account(NamedTuple):
    """In whose name segments are posted: the job and the peer that wrote the journal. `steps` are the job's."""

    job_id: int
    peer: str
    steps: int
    round_steps: int


class SegmentPoster:
    """Posts what the journal holds and the chain does not. Leftovers of an earlier process are posted first.

    Training never waits for it: `wake` says that there may be something new. A store or a chain that does not answer
    is tried again, with growing pauses.
    """

    def __init__(
        self, ipfs: IpfsClient, client: ChainClient, journal: Journal, account: Account, report: Reporter
    ) -> None:
        self._ipfs = ipfs
        self._client = client
        self._journal = journal
        self._account = account
        self._report = report
        self._news = asyncio.Event()
        self._news.set()

    def wake(self) -> None:
        """A step was added to the journal."""
        self._news.set()

    @property
    def ended(self) -> bool:
        """Whether the journal holds the job's last step."""
        return self._journal.last + 1 == self._account.steps

    async def run(self) -> None:
        """Posts each round once it is whole, but the last one; returns when the last step is in the journal.

        The last one is for `finish`, which names the model in it. Raises PostRefused when the chain takes no more.
        """
        ended = False
        while not ended:
            await self._news.wait()
            self._news.clear()
            ended = self.ended
            for first, last in self._journal.unposted(self._account.round_steps):
                if last + 1 < self._account.steps:
                    await self._post_patiently(first, last)

    async def finish(self, checkpoint: str, timeout: float) -> None:
        """Posts the rest at the end of the training, `checkpoint` (a CID) in the last segment.

        Raises PostRefused, or TimeoutError when store or chain did not answer in time.
        """
        async with asyncio.timeout(timeout):
            left = self._journal.unposted(self._account.round_steps, ended=True)
            for first, last in left:
                await self._post_patiently(first, last, checkpoint if (first, last) == left[-1] else "")

    async def _post_patiently(self, first: int, last: int, checkpoint: str = "") -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await _whole(asyncio.to_thread(self._post, first, last, checkpoint))
            except PostRefused:
                raise
            except HydraError as error:
                self._report("post_delayed", f"steps {first} to {last} not posted yet: {error}", {"first": first})
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _post(self, first: int, last: int, checkpoint: str) -> None:
        job_id = self._account.job_id
        # Its files first: whoever sees the post on chain shall find all of it.
        files = self._journal.files(first, last)
        segment = self._journal.segment(
            first,
            last,
            job=str(job_id),
            peer=self._account.peer,
            results=str(self._ipfs.add(files.results)),
            contributions=str(self._ipfs.add(files.contributions)) if files.contributions else "",
            checkpoint=checkpoint,
        )
        cid = str(self._ipfs.add(segment.document))
        try:
            key = f"record-{job_id}-{first}-{segment.digest.hex()}"
            self._client.training.post_record(job_id, first, last, segment.digest, cid, key=key)
        except Reverted as error:
            if error.error_name in _FINAL_REVERTS:
                raise PostRefused(f"the chain takes no record of steps {first} to {last}: {error.what}") from error
            # A crash between the transaction and the note of it: the chain has it.
            if error.error_name != "DuplicateRecord":
                raise
        self._journal.mark_posted(Posted(first, last, segment.digest, cid))
        facts = {"first": first, "last": last, "cid": cid, "digest": segment.digest.hex()}
        self._report("record_posted", f"steps {first} to {last} posted", facts)


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Awaits work in a thread; when cancelled, only once it has ended: nobody writes to a journal that was closed."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
