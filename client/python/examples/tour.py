# %% [markdown]
# # A tour of comera
#
# From a job to its model in PyTorch. Needs a coordinator with a CPU worker:
# `COMERA_SERVER` names it, or what `comera login` stored; one is started by
#
#     comera-server --data_dir=/tmp/comera & comera-worker --slots=2 --data_dir=/tmp/comera-worker --data_root=/usr &
#
# This notebook is made from `tour.py` by `make_notebook.py`.

# %%
import sysconfig

import comera

client = comera.Client()
client.server_version()

# %% [markdown]
# ## A job
#
# A dict, or the path of a job file. Here: a small masked language model on
# Python's own library, towards a loss *and* a size.

# %%
spec = {
    "display_name": "tour",
    "model": {"family": "masked_lm", "layers": 1, "hidden": 64, "heads": 4},
    "data": {
        "code_directory": {
            "roots": [sysconfig.get_path("stdlib")],
            "globs": ["*.py"],
            "max_bytes": "2MiB",
        },
        "tokenizer": {"kind": "byte_bpe", "train_vocabulary_size": 600},
        "max_length": 48,
    },
    "objective": {
        "early": {"steps": 150},
        "late": {"target_loss": 5.8, "target_ratio": 0.9, "max_steps": 600},
    },
    "optimizer": {"learning_rate_cores": 0.005, "learning_rate_ranks": 0.01},
    "training": {"batch_size": 16, "report_every_steps": 10, "validation_samples": 128},
}
client.validate(spec).forecast

# %% [markdown]
# What is wrong is named.

# %%
try:
    client.submit({**spec, "model": {**spec["model"], "heads": 5}})
except comera.InvalidArgumentError as error:
    print(error)

# %%
job = client.submit(spec)
job

# %% [markdown]
# ## Watch it
#
# The loop ends with the job. Interrupting it leaves the job running.

# %%
for event in job.watch():
    if event.metrics and event.metrics.HasField("validation_loss"):
        print(event)
    elif event.state:
        print(event)

# %%
job

# %% [markdown]
# ## Its figures

# %%
series = job.series("loss", "validation_loss", "size_parameters")
series.plot("loss", "validation_loss")

# %%
series.to_pandas().tail()

# %% [markdown]
# Ranks of each layer and bond over time, and the Pareto front of all models that
# the job passed through.

# %%
series.ranks_to_pandas().groupby(["step", "layer_class"])["rank"].mean().unstack()

# %%
front = job.pareto()
front.plot()
front

# %% [markdown]
# ## Its model in PyTorch
#
# Tensor-train layers compute with their cores. No dense matrix is formed.

# %%
import comera.torch

model = comera.torch.load(job.models[-1])
print(model.num_parameters(), comera.torch.to_dense(model).num_parameters())
model.fill_mask("if x is <mask>:")

# %% [markdown]
# ## Train it further
#
# The parameters are the cores.

# %%
import torch

torch.manual_seed(1)
lines = [line for line in open(comera.__file__) if len(line) > 20]
batch = model.masked(model.batch(lines))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = model.loss(**batch)
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
print(f"{losses[0]:.3f} -> {losses[-1]:.3f}")
