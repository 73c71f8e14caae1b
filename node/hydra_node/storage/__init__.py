"""Content addressing: CIDs, UnixFS files, the block store, the Kubo RPC in front of it, and datasets."""
