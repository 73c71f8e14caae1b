"""Training a model together: the job, the order of samples, the steps and the account of them."""
