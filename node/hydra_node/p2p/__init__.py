"""Peers: identity, secure transport, discovery (a Kademlia DHT with signed records) and the block swarm."""
