"""Real processes on real sockets train together and end alike."""

import asyncio
from pathlib import Path

from swarm_world import check_alike, swarm_in


async def test_four_members_end_with_the_same_state(tmp_path: Path) -> None:
    async with swarm_in(tmp_path) as swarm:
        members = [await swarm.start(f"m{place}", seconds=0.0) for place in range(4)]
        check_alike(await asyncio.gather(*(member.until("done") for member in members)))
    steps = [said for member in members for said in member.said if said["event"] == "step"]
    assert not any(said["clipped"] for said in steps)
