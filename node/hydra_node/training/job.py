"""A training job as the chain and the store describe it, checked before anybody trains on it."""

import hashlib
from dataclasses import dataclass

from hydra_node.chain.bindings.structs import TrainingTerms
from hydra_node.chain.contracts import ChainClient
from hydra_node.chain.enums import Kind
from hydra_node.errors import HydraError
from hydra_node.storage import dataset
from hydra_node.storage.cid import Cid
from hydra_node.storage.ipfs import IpfsClient
from hydra_node.training.samples import Samples, for_spec
from hydra_node.training.spec import MAX_SPEC_BYTES, TrainingSpec, parse_published


class BadJob(HydraError):
    """A job that is none, or whose terms and spec do not belong together."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a trainer or an auditor needs to know of a job."""

    job_id: int
    spec: TrainingSpec
    terms: TrainingTerms
    samples: Samples


def load(client: ChainClient, ipfs: IpfsClient, job_id: int) -> Job:
    """Fetches spec and dataset by the CIDs that the chain names; every hash is verified. Blocking.

    Both are pinned here, and so served to others: a job does not depend on its sponsor to stay online.

    Raises BadJob, BadSpec, BadSamples, and the errors of chain and store.
    """
    spec, terms = load_spec(client, ipfs, job_id)
    return Job(job_id, spec, terms, load_samples(ipfs, spec))


def load_samples(ipfs: IpfsClient, spec: TrainingSpec) -> Samples:
    """The dataset of a job, fetched, checked against the spec, and pinned. Blocking.

    Raises BadSamples, InvalidCid, MalformedManifest, ContentNotFound.
    """
    cid = Cid.parse(spec.dataset)
    data = dataset.load(ipfs, cid)
    samples = for_spec(spec, data.features, data.labels)
    ipfs.pin(cid)
    return samples


def swarm_id(chain_id: int, registry: str, job_id: int) -> bytes:
    """The 32 bytes that tell this job's swarm from any other: they are in every record and signature of it."""
    return hashlib.sha256(f"hydra-swarm:{chain_id}:{registry.lower()}:{job_id}".encode()).digest()


def load_spec(client: ChainClient, ipfs: IpfsClient, job_id: int) -> tuple[TrainingSpec, TrainingTerms]:
    """The job's spec and terms, checked against each other. Blocking."""
    history = client.history
    history.refresh()
    opened = history.find("JobOpened", "JobEscrow", jobId=job_id)
    if not opened or opened[0].args["kind"] != Kind.TRAINING:
        raise BadJob(f"there is no training job {job_id} on this chain", remedy="see: hydra-node job list")
    terms = client.training.terms(job_id)
    if terms.steps == 0:
        raise BadJob(f"job {job_id} has no terms yet", remedy="wait until its sponsor has opened the training")
    cid = Cid.parse(str(opened[0].args["specCid"]))
    document = ipfs.cat(cid, MAX_SPEC_BYTES)
    ipfs.pin(cid)
    spec = parse_published(document, bytes(opened[0].args["specHash"]))
    if (spec.steps, spec.round_steps) != (terms.steps, terms.round_steps):
        raise BadJob(
            f"job {job_id}: the spec has {spec.steps} steps in rounds of {spec.round_steps}",
            expected=f"the terms on chain: {terms.steps} in rounds of {terms.round_steps}",
        )
    return spec, terms
