"""Data campaigns as the sponsor and the contributor see them: policy, submission, accepted dataset."""
