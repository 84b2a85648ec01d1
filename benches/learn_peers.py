#!/usr/bin/env python3
"""One side of `cargo xtask bench learn`: a training step of PyTorch, plain or with Opacus, on request.

usage: learn_peers.py {mlp|cnn|encoder|lora} {plain|hooks|ghost|functorch|ew} THREADS

Says what it is in one JSON line, then reads seconds from its input, line by line, and answers each with one JSON line:
the times of the steps that it took in that long, the processor time of all of them, and the peak of its memory so far.

The batch is fixed, so that both sides do the same work: forward, back, clipping, noise, one step of SGD without
momentum.
Versions that this was written for: torch==2.15.0, opacus==1.6.0. Noise of Opacus comes from PyTorch's generator.
"""

import json
import os
import resource
import sys
import time
import warnings

case, mode, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(threads)
warnings.filterwarnings("ignore")

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("torch is not installed")


class Attention(nn.Module):
    def __init__(self, width, heads, rank):
        super().__init__()
        self.heads, self.rank = heads, rank
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        if rank:
            self.lora = nn.ModuleList(nn.Linear(*ends, bias=False) for ends in 2 * [(width, rank), (rank, width)])

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.rank:
            q, v = q + self.lora[1](self.lora[0](x)), v + self.lora[3](self.lora[2](x))
        q, k, v = (z.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for z in (q, k, v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, rank):
        super().__init__()
        self.attention, self.norms = Attention(width, heads, rank), nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, vocabulary, width, heads, length, rank=0):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, rank) for _ in range(6))
        self.head = nn.Linear(width, 2)
        if rank:
            for name, parameter in self.named_parameters():
                parameter.requires_grad = "lora" in name or name.startswith("head")

    def forward(self, x):
        # Opacus wants the places to have the dimension of the batch, and to lie side by side.
        places = torch.arange(x.shape[1]).expand(x.shape[0], -1).contiguous()
        y = self.norm(self.tokens(x) + self.places(places))
        for block in self.blocks:
            y = block(y)
        return self.head(y.mean(1))


def model():
    if case == "mlp":
        layers = nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
        return nn.Sequential(*layers), torch.randn(256, 784), 10
    if case == "cnn":
        first = nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)
        second = nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten()
        last = nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)
        return nn.Sequential(*first, *second, *last), torch.randn(256, 1, 28, 28), 10
    if case == "encoder":
        return Encoder(8000, 256, 8, 64), torch.randint(0, 8000, (32, 64)), 2
    return Encoder(30522, 384, 6, 128, rank=8), torch.randint(0, 30522, (32, 128)), 2


def step_of():
    network, inputs, classes = model()
    targets = torch.randint(0, classes, (len(inputs),))
    network.train()
    optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.01)
    loss = nn.CrossEntropyLoss()
    if mode != "plain":
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, TensorDataset

        loader = DataLoader(TensorDataset(inputs, targets), batch_size=len(inputs))
        wanted = {"noise_multiplier": 1.1, "max_grad_norm": 1.0, "poisson_sampling": False, "grad_sample_mode": mode}
        given = {"module": network, "optimizer": optimizer, "data_loader": loader, **wanted}
        if mode == "ghost":
            network, optimizer, loss, _ = PrivacyEngine().make_private(criterion=loss, **given)
        else:
            network, optimizer, _ = PrivacyEngine().make_private(**given)

    def step():
        optimizer.zero_grad()
        loss(network(inputs), targets).backward()
        optimizer.step()

    return step, len(inputs)


torch.manual_seed(0)
torch.set_num_threads(threads)
step, examples = step_of()
for _ in range(2):
    step()
print(json.dumps({"torch": torch.__version__, "examples": examples}), flush=True)
for line in sys.stdin:
    times, cpu, end = [], time.process_time(), time.perf_counter() + float(line)
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": times, "cpu": time.process_time() - cpu, "peak": peak}), flush=True)
