"""The methods that are compared: how each turns a task into a job."""
import copy

import bench_tasks


def dense(spec, optimizer="ADAMW"):
    spec["compression"] = {"method": "DENSE"}
    spec["optimizer"] = {"kind": optimizer}
    return spec


def narrow(spec, width, optimizer="ADAMW", tied=False):
    """The dense model with rows of this width."""
    dense(spec, optimizer)
    set_width(spec, width)
    if tied:
        spec["model"]["tieOutput"] = True
    return spec


def set_width(spec, width):
    model = spec["model"]
    if bench_tasks.clicks_model(spec):
        model["dlrm"]["bottomMlp"][-1] = width
        return
    if model["family"] == "CAUSAL_LM":  # rotary positions pair columns
        width = max(2, width - width % 2)
    heads = max(h for h in range(1, model["heads"] + 1)
                if width % h == 0 and (width // h % 2 == 0 or "ffn" in model))
    model.update(hidden=width, heads=heads)
    if "ffn" in model:
        model["ffn"] = 4 * width


def comera(spec, rank, optimizer="MUON", bonds=1):
    """Tensor trains of the dense model's width, all ranks from one number.

    A list of ranks fixes the number of cores, which one rank leaves open.
    """
    linear = {"ranks": [rank] * bonds}
    wide = {"ranks": [rank * 4 // 3]}
    spec["compression"] = {"method": "COMERA"}
    if bench_tasks.clicks_model(spec):
        spec["compression"]["table"] = {"ranks": [rank]}
        optimizer = "ADAMW"
    else:
        for layer in ("attention", "ffnUp", "ffnDown"):
            spec["compression"][layer] = linear
        if spec["model"]["family"] != "CAUSAL_LM":
            spec["compression"]["head"] = linear
        spec["compression"]["embedding"] = wide
        if bench_tasks.language_model(spec):
            spec["compression"]["output"] = wide
    spec["optimizer"] = {"kind": optimizer}
    return spec


def comera_tied(spec, rank):
    comera(spec, rank)
    del spec["compression"]["output"]
    spec["model"]["tieOutput"] = True
    return spec


def comera_narrow(spec, rank):
    """Tensor trains of two thirds of the dense model's width."""
    set_width(spec, spec["model"]["hidden"] * 2 // 3)
    return comera(spec, rank)


def comera_dense_tokens(spec, rank):
    """With a tied output, and dense rows for the most frequent tokens, which
    take about a quarter of the parameters of models 256 wide."""
    comera_tied(spec, rank)
    spec["compression"]["embedding"]["denseTokens"] = min(
        40 * rank, bench_tasks.vocabulary(spec) // 2)
    return spec


def comera_dense_attention(spec, rank, part=1):
    """Dense attention and dense rows for the most frequent tokens, with a tied
    output and tensor trains in the rest.

    `part`: of the dense model's width. The rows are of three sixteenths of the
    vocabulary, in models of half the width of one sixteenth.
    """
    if part > 1:
        set_width(spec, spec["model"]["hidden"] // part)
    comera_tied(spec, rank)
    spec["compression"]["attention"] = {"dense": True}
    spec["compression"]["embedding"]["denseTokens"] = (
        bench_tasks.vocabulary(spec) * (3 if part == 1 else 1) // 16)
    return spec


def with_silu(spec):
    """A SiLU between the halves of each tensor-train layer."""
    spec["compression"]["innerActivation"] = "SILU"
    return spec


def published(spec, rank):
    """The published objective and optimiser, with layers of six cores."""
    spec["objective"]["kind"] = "REFERENCE"
    return comera(spec, rank, "ADAMW", bonds=5)


def cola(spec, width, optimizer="ADAMW"):
    set_width(spec, width)
    spec["compression"] = {"method": "COLA",
                           "cola": {"rank": max(1, width // 4)}}
    spec["optimizer"] = {"kind": optimizer}
    return spec


def galore(spec):
    spec["compression"] = {"method": "GALORE", "galore": {"rank": 32}}
    return spec


# What a method makes of a job, and the rates that are searched together, with
# their defaults.
WHOLE = {
    "dense": (dense, {"learningRateOther": 1e-3}),
    "dense, Muon": (lambda s: dense(s, "MUON"),
                    {"learningRateCores": 2e-2, "learningRateOther": 1e-3}),
    "GaLore": (galore, {"learningRateOther": 1e-2}),
}
# The same, of methods whose models are as large as a number makes them.
SIZED = {
    "comera": (comera, {"learningRateCores": 1e-2}),
    "comera, tied": (comera_tied, {"learningRateCores": 1e-2}),
    "comera, tied, dense tokens": (comera_dense_tokens,
                                   {"learningRateCores": 1e-2}),
    "comera, tied, dense attention": (comera_dense_attention,
                                      {"learningRateCores": 1e-2}),
    "comera, tied, dense attention, half as wide": (
        lambda s, n: comera_dense_attention(s, n, 2),
        {"learningRateCores": 1e-2}),
    "comera, two thirds as wide": (comera_narrow, {"learningRateCores": 1e-2}),
    "comera, SiLU": (lambda s, n: with_silu(comera(s, n)),
                     {"learningRateCores": 1e-2}),
    "comera, SiLU, tied": (lambda s, n: with_silu(comera_tied(s, n)),
                           {"learningRateCores": 1e-2}),
    "comera, AdamW": (lambda s, n: comera(s, n, "ADAMW"),
                      {"learningRateCores": 1e-3}),
    "comera, published rule": (published, {"learningRateCores": 1e-3}),
    "narrow dense": (narrow, {"learningRateOther": 3e-3}),
    "narrow dense, Muon": (lambda s, n: narrow(s, n, "MUON"),
                           {"learningRateCores": 2e-2,
                            "learningRateOther": 3e-3}),
    "narrow dense, tied": (lambda s, n: narrow(s, n, tied=True),
                           {"learningRateOther": 3e-3}),
    "narrow dense, tied, Muon": (lambda s, n: narrow(s, n, "MUON", True),
                                 {"learningRateCores": 2e-2,
                                  "learningRateOther": 3e-3}),
    "CoLA": (cola, {"learningRateOther": 3e-3}),
    "CoLA, Muon": (lambda s, n: cola(s, n, "MUON"),
                   {"learningRateCores": 2e-2, "learningRateOther": 3e-3}),
}
METHODS = {**WHOLE, **SIZED}


def suits(method, task):
    """Whether the method means something of its own on the task."""
    family = task["model"]["family"]
    if "tied" in method:
        return bench_tasks.language_model(task)
    if family == "DLRM":
        return method in ("dense", "narrow dense", "comera",
                          "comera, published rule")
    return True


def make_spec(task, method, number, factor, seed, scale):
    """The job that trains a task by a method.

    `number`: the rank or width of a sized method; `factor`: of its learning
    rates; `scale`: of the task's steps.
    """
    steps = max(20, round(task["steps"] * scale))
    spec = copy.deepcopy({k: task[k] for k in ("model", "data")})
    spec["objective"] = {"kind": "PARETO",
                         "early": {"steps": steps, "gamma": 1e-4}}
    make, rates = METHODS[method]
    if rates == SIZED["comera"][1]:  # the defaults of job files
        rates = {"learningRateCores": {
            "DLRM": 1e-3, "ENCODER_CLASSIFIER": 2.5e-3}.get(
                spec["model"]["family"], 1e-2)}
    spec = make(spec) if number is None else make(spec, number)
    optimizer = spec.setdefault("optimizer", {})
    optimizer.update({"decay": task.get("decay", "LINEAR"),
                      "warmupSteps": steps // 10})
    optimizer.update({field: rate * factor for field, rate in rates.items()})
    spec["training"] = {"batchSize": task.get("batch", 32), "seed": seed,
                        "validateEverySteps": max(1, steps // 10),
                        "reportEverySteps": max(1, steps // 10),
                        "validationSamples": task.get("validation", 1024)}
    spec["resources"] = {"device": "CPU", "processes": 1}
    spec["checkpoint"] = {"everySteps": 10 ** 9}
    return spec
