"""What a user's training script is to the tests: a plain model of plain_models.py,
made of tensor trains, trained towards a loss and a size; alone, or as a member of a
gang as torch.distributed finds it in the environment.

    train_program.py convnet|bert|gpt FOLDER [--steps N] [--kill STEP] [--term STEP]
        [--double] [--forget]

Losses go to FOLDER/losses-MEMBER, checkpoints to FOLDER/checkpoints; "-" is the folder
for temporary files. The last line on stdout is JSON.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

import comera.torch
import plain_models


def next_token_loss(model, rows):
    logits = model(rows[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def class_loss(model, batch):
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


# Model, batch, loss, ranks, steps of both stages, target loss,
# target ratio.
TASKS = {
    "convnet": (
        plain_models.ConvNet, plain_models.image_batch, class_loss, 16, (40, 60), 0.2, 0.5
    ),
    "bert": (
        lambda: plain_models.Bert(1000), plain_models.class_batch, class_loss, 12,
        (60, 60), 0.3, 0.7,
    ),
    "gpt": (
        lambda: plain_models.Gpt(1000), plain_models.text_batch, next_token_loss, 16,
        (60, 80), 2.5, 0.8,
    ),
}


def take(batch, first, step):
    if isinstance(batch, tuple):
        return tuple(part[first::step] for part in batch)
    return batch[first::step]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--kill", type=int, default=-1)
    parser.add_argument("--term", type=int, default=-1)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--forget", action="store_true", help="to wrap the module again")
    args = parser.parse_args()
    if args.folder == Path("-"):
        args.folder = Path(tempfile.gettempdir())
    if args.double:
        torch.set_default_dtype(torch.float64)
    member, members = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if members > 1:
        dist.init_process_group("gloo")
    make, draw, loss_of, ranks, (early, late), target_loss, ratio = TASKS[args.task]

    torch.manual_seed(1)
    model = comera.torch.tensorize(make(), ranks, start="scratch")
    dense = sum(p.numel() for p in make().parameters())
    groups = comera.torch.parameter_groups(model, cores=5e-3, ranks=1e-2, others=3e-3)
    optimizer = torch.optim.AdamW(groups)
    objective = comera.torch.Objective(model, optimizer, gamma=0.02, compact_every=20)
    held_out = draw(torch.Generator().manual_seed(2), size=128)
    reduced = []

    def hook(_, bucket):
        reduced.append(bucket.buffer().numel() * bucket.buffer().element_size())
        return allreduce_hook(dist.group.WORLD, bucket)

    def wrap():
        if members == 1:
            return model
        wrapped = DistributedDataParallel(model)
        wrapped.register_comm_hook(None, hook)
        return wrapped

    run = comera.torch.Run(
        model, optimizer, objective, steps=args.steps or early + late,
        checkpoints=args.folder / "checkpoints", checkpoint_every=25, report_every=25,
    )
    bytes_of_a_step = []
    with run, open(args.folder / f"losses-{member}", "a") as losses:
        wrapped = wrap()
        for step in run:
            if step == early:
                # The program of a job has the targets of the job.
                objective.begin_late(
                    run.target_loss or target_loss,
                    target_size=run.target_size,
                    target_ratio=None if run.target_size else ratio,
                    max_steps=late,
                    floors={"*.query": 4, "*.key": 4} if args.task != "convnet" else None,
                )
                wrapped = wrap()
            # A function of the step, so that it goes on where it was.
            batch = draw(torch.Generator().manual_seed(1000 + step))
            optimizer.zero_grad()
            reduced.clear()
            loss = loss_of(wrapped, take(batch, member, members))
            figures = objective.backward(loss)
            bytes_of_a_step = [sum(reduced), 4 * sum(p.numel() for p in model.parameters())]
            if objective.step() and not args.forget:
                wrapped = wrap()
            print(step, repr(figures.loss), int(figures.size), file=losses, flush=True)
            run.report(loss)
            if step % 10 == 9:
                with torch.no_grad():
                    run.validate(float(loss_of(model, held_out)))
            if step == args.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == args.term:
                os.kill(os.getpid(), signal.SIGTERM)
    print(
        json.dumps(
            {
                "outcome": run.outcome,
                "step": run.step,
                "size": run.size,
                "dense": dense,
                "loss": min((p.validation_loss for p in run.front), default=None),
                "target_size": objective.target.size if objective.target else None,
                "bytes": bytes_of_a_step,
                "sum": float(sum(p.double().sum() for p in model.parameters())),
            }
        )
    )
    if members > 1:
        # Its threads must have ended before the interpreter does.
        del wrapped
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
