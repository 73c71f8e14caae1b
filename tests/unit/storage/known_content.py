"""Deterministic content, and the CIDs that independent implementations give it.

The CIDs come from npm `ipfs-unixfs-importer` (cidVersion 1, rawLeaves, 256 KiB fixed chunks, 174 links), the second
column with cidVersion 0 and rawLeaves off; PyPI `aleph-cid` gives the second column too.
"""

import random

CHUNK = 262144

EXPECTED = {
    0: (
        "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
        "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH",
    ),
    1: (
        "bafkreiekgmp53zydf4z2ohq3fysx3aawny2i4ah4wf4rj5el3nl2drrqa4",
        "QmcHFYKzbGeJYtDtcHEjgpKas4wZm8M25hjRusVLjou6Kx",
    ),
    CHUNK - 1: (
        "bafkreih2hom5mdt3hxznampdzj6ksv6o36vafqqctcrkoz5rfhpw3eodwu",
        "QmPdFsTSn1n7xDXVvvVqYcVgkzwbH1dKBZUR9DQWopFYr9",
    ),
    CHUNK: (
        "bafkreih2bk74eu5axngebs6vftmmkcaqboysjjy726xzy5hksnqmfgw5fy",
        "Qmbd9VNLTfpBW2arj1AkAJnVRYBq1WEY6Uu6wLEiemGipi",
    ),
    CHUNK + 1: (
        "bafybeidbbs6ocod3v27jtr4uhvc6n55y3gbrtur3bvjsnraudtbxkozi2y",
        "QmdkAszdeWKht9nXSzPKGUYvUqpMfm325GuCn1pZnTa9ja",
    ),
    174 * CHUNK: (
        "bafybeih3ebhydpblov22wbakszm4spvku7hbo3oa5gdhgoh7gnub26mtx4",
        "QmNWRuH9CkAYPi3Gf99g1nB74Cw3y5NuPKohRs7KX2KsJz",
    ),
    174 * CHUNK + 1: (
        "bafybeidsyc3rx6lmbjml2fg4ucagkjh3kse6tbphoyyhms46fqhmu6ujbi",
        "QmWvAUzQsaCFMPzTTFKwGmTmijHZ5aVRwJqGwrSHF89cuy",
    ),
}


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)
