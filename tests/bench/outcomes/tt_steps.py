"""Optimiser steps on two-core tensor trains, for tt_variants.py.

Every step of the cores is relative: the direction has singular values of about
1 (or a Frobenius norm of sqrt(rank)), and is multiplied by the rate and by the
root mean square of the core's singular values.
"""
import torch

MOMENTUM = 0.95
# Damping of Gram matrices, relative to their mean eigenvalue.
DAMPING = 0.1
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalise(x):
    """Newton-Schulz on a batch of tall matrices (kernels/orthogonal_plan.h)."""
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(5):
        gram = x.transpose(1, 2) @ x
        x = _A * x + x @ (_B * gram + _C * gram @ gram)
    return x


def tall(x):
    return x if x.shape[0] >= x.shape[1] else x.t()


class AdamW:
    """Parameters in groups of one rate each; no weight decay."""

    def __init__(self, groups):
        self.groups = groups  # name: list of parameters
        self.moments = {}
        self.steps = 0

    def step(self, rates, factor):
        """`factor`: what clipping makes of the gradients."""
        self.steps += 1
        c1, c2 = 1 - 0.9 ** self.steps, 1 - 0.999 ** self.steps
        for name, parameters in self.groups.items():
            for p in parameters:
                g = p.grad * factor
                if p not in self.moments:
                    self.moments[p] = torch.zeros_like(p), torch.zeros_like(p)
                m, v = self.moments[p]
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                p.data.addcdiv_(m, (v / c2).sqrt_().add_(1e-8),
                                value=-rates[name] / c1)


class Muon:
    """Orthogonalised momentum of both cores.

    `gram`: multiplies the momentum of each core with the inverse Gram matrix of
    the other side (scaled gradient descent). Without `orthogonal` the direction
    has the length of an orthogonal one instead of its singular values.
    """

    def __init__(self, trains, gram=False, orthogonal=True):
        self.trains, self.gram, self.orthogonal = trains, gram, orthogonal
        self.momenta = {}

    def directions(self):
        """(core, its direction before normalisation)."""
        for train in self.trains:
            for p in (train.left, train.right):
                m = self.momenta.setdefault(p, torch.zeros_like(p))
                m.mul_(MOMENTUM).add_(p.grad, alpha=1 - MOMENTUM)
                u = MOMENTUM * m + (1 - MOMENTUM) * p.grad
                if self.gram:
                    u = precondition(train, p is train.left, u)
                yield p, u

    def step(self, rate):
        groups = {}
        for p, u in self.directions():
            groups.setdefault(tall(u).shape, []).append((p, u))
        for (_, wide), members in groups.items():
            stack = torch.stack([tall(u) for _, u in members])
            if self.orthogonal:
                stack = orthogonalise(stack)
            else:
                norms = stack.flatten(1).norm(dim=1)[:, None, None]
                stack = stack * (wide ** 0.5 / (norms + 1e-30))
            for (p, u), d in zip(members, stack):
                d = d if u.shape[0] >= u.shape[1] else d.t()
                p.data.sub_(d * (rate * p.data.norm() / wide ** 0.5))


def damped(gram):
    mean = gram.diagonal().mean()
    return gram + (DAMPING * mean + 1e-12) * torch.eye(len(gram))


def precondition(train, is_left, u):
    d = train.entries.data
    if is_left:
        other = d[:, None] * train.right.data
        return torch.linalg.solve(damped(other @ other.t()), u.t()).t()
    other = train.left.data * d
    return torch.linalg.solve(damped(other.t() @ other), u)


class Riemannian:
    """Steps on the manifold of matrices of one rank (TangentTrain).

    The momentum is carried along by projection to the next tangent space, its
    Nesterov combination is orthogonalised (or brought to the length of an
    orthogonal matrix) within the 2r x 2r matrix that represents it, and the
    step is retracted by a truncated SVD of that size.
    """

    def __init__(self, trains, orthogonal=True):
        self.trains, self.orthogonal = trains, orthogonal
        self.momenta = {}  # train: (N x 2r, 2r x M), factors of the momentum

    def step(self, rate):
        for train in self.trains:
            self.step_of(train, rate)

    def step_of(self, train, rate):
        u, v, s = train.u, train.right.data, train.s
        r = len(s)
        gl, gr = train.left.grad, train.shift.grad  # G v', u' G
        ml, mr = (1 - MOMENTUM) * gl, (1 - MOMENTUM) * gr
        if train in self.momenta:
            left, right = self.momenta[train]
            ml = ml + MOMENTUM * (left @ (right @ v.t()))
            mr = mr + MOMENTUM * ((u.t() @ left) @ right)
        middle = u.t() @ ml
        self.momenta[train] = (
            torch.cat([u, ml - u @ middle], 1),
            torch.cat([mr, v], 0))
        dl = MOMENTUM * ml + (1 - MOMENTUM) * gl
        dr = MOMENTUM * mr + (1 - MOMENTUM) * gr
        middle = u.t() @ dl
        q1, r1 = torch.linalg.qr(dl - u @ middle)
        q2, r2 = torch.linalg.qr((dr - middle @ v).t())
        k = torch.zeros(2 * r, 2 * r)
        k[:r, :r], k[:r, r:], k[r:, :r] = middle, r2.t(), r1
        k = (orthogonalise(k[None])[0] if self.orthogonal
             else k * ((2 * r) ** 0.5 / (k.norm() + 1e-30)))
        k *= -rate * s.norm() / r ** 0.5
        k.diagonal()[:r] += s
        x, values, y = torch.linalg.svd(k)
        train.u = torch.cat([u, q1], 1) @ x[:, :r]
        train.s = values[:r].clone()
        train.right.data = y[:r] @ torch.cat([v, q2.t()], 0)
        train.left.data = train.u * train.s


class SpectralBound:
    """Keeps the largest singular value of each W below `times` its start's."""

    def __init__(self, trains, times):
        self.trains, self.times = trains, times
        self.vectors, self.limits = {}, {}
        for train in trains:
            self.limits[train] = times * float(
                torch.linalg.svdvals(train.matrix().detach())[0])
            self.vectors[train] = torch.ones(train.outputs)

    def apply(self):
        for train in self.trains:
            left = train.left.data * train.entries.data
            y = self.vectors[train]
            for _ in range(2):
                x = left @ (train.right.data @ (y / (y.norm() + 1e-30)))
                y = (x / (x.norm() + 1e-30)) @ left @ train.right.data
            self.vectors[train] = y
            largest = float(y.norm())
            if largest > self.limits[train]:
                train.entries.data *= self.limits[train] / largest


def grow(train, rank, muon, adamw, generator):
    """More ranks without a change of W: the new rows of `right` are 0."""
    more = rank - train.rank
    scale = train.left.data.norm() / train.rank ** 0.5
    fresh = torch.randn(train.inputs, more, generator=generator)
    q, _ = torch.linalg.qr(train.left.data)
    fresh -= q @ (q.t() @ fresh)
    fresh = torch.linalg.qr(fresh)[0] * scale
    for name, part, dim in (
            ("left", fresh, 1), ("entries", torch.ones(more), 0),
            ("right", torch.zeros(more, train.outputs), 0)):
        old = getattr(train, name)
        new = torch.nn.Parameter(torch.cat([old.data, part], dim))
        setattr(train, name, new)
        zero = torch.zeros_like(part)
        if old in muon.momenta:
            muon.momenta[new] = torch.cat([muon.momenta.pop(old), zero], dim)
        if old in adamw.moments:
            adamw.moments[new] = tuple(
                torch.cat([m, zero], dim) for m in adamw.moments.pop(old))
        for parameters in adamw.groups.values():
            for i, p in enumerate(parameters):
                if p is old:
                    parameters[i] = new
