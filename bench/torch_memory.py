#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs for script/lib/memory_rows.py; each ends with its input:
  torch_memory.py train bert|resnet [BATCH [GIB]]   answers "steps N" with their losses and how long they took. The steps of two such
                                              programs are the same, bit for bit. BATCH 0: as many as GIB have room for
  torch_memory.py serve GIB SEED              a language model of so many GiB with random weights (transformers' Llama, where that
                                              is installed); answers "ask PROMPT N" with N tokens, and how long the first and
                                              all of them took
Both say "ready" and, in MiB, what they have of the device; then the batch."""
import json
import os
import random
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

DEV = "cuda"
WORDS, PAST = 32000, 256
BATCH = {"bert": 32, "resnet": 256}  # about as much memory for both


class Block(torch.nn.Module):
    """Of a decoder without transformers: it sees the whole text each time."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, mask=None):
        n, t, width = x.shape
        q, k, v = self.qkv(self.n1(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=mask is None)
        x = x + self.proj(a.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Plain(torch.nn.Module):
    def __init__(self, width, layers, heads):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, width)
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(layers)))

    def forward(self, ids):
        return self.blocks(self.words(ids)) @ self.words.weight.t()


class Server:
    """Greedy, so that the same prompt has the same answer."""

    def __init__(self, gib, seed):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.bfloat16)
        width = 4096 if gib >= 1.5 else 1024  # few layers: each takes the processor time, for each token
        layer = 12 * width * width * 2 / (1 << 30)  # GiB of one
        layers = max(2, int(gib / layer))
        with torch.device(DEV), torch.no_grad():
            self.model = self.llama(width, layers) or Plain(width, layers, width // 128)
        self.model.eval()

    @staticmethod
    def llama(width, layers):
        try:
            from transformers import LlamaConfig, LlamaForCausalLM
        except ImportError:
            return None
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=WORDS, hidden_size=width, intermediate_size=width * 8 // 384 * 128, num_hidden_layers=layers,
            num_attention_heads=width // 128, num_key_value_heads=width // 128, max_position_embeddings=2048))

    def next(self, ids, past):
        if isinstance(self.model, Plain):
            return self.model(ids)[:, -1].argmax(-1), None
        said = self.model(ids if past is None else ids[:, -1:], past_key_values=past, use_cache=True)
        return said.logits[:, -1].argmax(-1), said.past_key_values

    @torch.no_grad()
    def ask(self, prompt, n):
        rng, begin, tokens, past = random.Random(prompt), time.monotonic(), [], None
        ids = torch.tensor([[rng.randrange(WORDS) for _ in range(PAST)]], device=DEV)
        first = None
        for _ in range(n):
            word, past = self.next(ids, past)
            tokens.append(int(word))
            first = first or time.monotonic() - begin
            ids = torch.cat([ids, word.view(1, 1)], 1)
        return {"first_ms": first * 1000, "ms": (time.monotonic() - begin) * 1000, "tokens": tokens}


class Bert:
    def __init__(self, batch):
        with torch.device(DEV):
            self.model = torch.nn.Sequential(*(Block(1024, 16) for _ in range(24)))  # as many weights as BERT-large
            self.x = torch.randn(batch, 384, 1024)
            self.y = torch.randn(batch, 384, 1024)

    def loss(self):
        with torch.autocast(DEV, torch.bfloat16):
            return F.mse_loss(self.model(self.x).float(), self.y)


class ResNet:
    def __init__(self, batch):
        with torch.device(DEV):
            self.model = self.make()
            self.x = torch.randn(batch, 3, 224, 224)
            self.y = torch.randint(0, 1000, (batch,))

    @staticmethod
    def make():
        try:
            from torchvision.models import resnet50
            return resnet50()
        except ImportError:  # something of its size
            def stage(a, b, n):
                first = [torch.nn.Conv2d(a, b, 3, 2, 1), torch.nn.BatchNorm2d(b), torch.nn.ReLU()]
                return first + [m for _ in range(n) for m in (torch.nn.Conv2d(b, b, 3, 1, 1), torch.nn.BatchNorm2d(b), torch.nn.ReLU())]
            return torch.nn.Sequential(*stage(3, 64, 3), *stage(64, 256, 4), *stage(256, 512, 4), torch.nn.AdaptiveAvgPool2d(1),
                                       torch.nn.Flatten(), torch.nn.Linear(512, 1000))

    def loss(self):
        with torch.autocast(DEV, torch.bfloat16):
            return F.cross_entropy(self.model(self.x).float(), self.y)


def batch_of(what, gib):
    """How many have room, by what two small batches need."""
    few, more = (needs(what, n) for n in (4, 8))
    return max(4, int(4 + (gib * (1 << 30) - few) / max((more - few) / 4, 1)))


def needs(what, batch):
    trainer = Trainer(what, batch)
    torch.cuda.synchronize()
    had = torch.cuda.max_memory_reserved()
    del trainer
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return had


class Trainer:
    def __init__(self, what, batch):
        self.batch = batch
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = False
        for other in "cudnn", "flash", "mem_efficient":  # their gradients are not the same each time
            getattr(torch.backends.cuda, f"enable_{other}_sdp")(False)
        torch.backends.cudnn.deterministic = True
        torch.use_deterministic_algorithms(True, warn_only=True)
        self.of = {"bert": Bert, "resnet": ResNet}[what](batch)
        self.opt = torch.optim.AdamW(self.of.model.parameters(), lr=1e-4)
        self.steps(2)  # libraries get their memory

    def steps(self, n):
        begin, losses = time.monotonic(), []
        for _ in range(n):
            self.opt.zero_grad(set_to_none=True)
            loss = self.of.loss()
            loss.backward()
            self.opt.step()
            losses.append(loss.detach())
        torch.cuda.synchronize()
        return {"s": time.monotonic() - begin, "losses": [float(x) for x in losses]}


def main():
    if sys.argv[1] == "train":
        batch = int(sys.argv[3]) if len(sys.argv) > 3 else BATCH[sys.argv[2]]
        program = Trainer(sys.argv[2], batch or batch_of(sys.argv[2], float(sys.argv[4])))
    else:
        program = Server(float(sys.argv[2]), int(sys.argv[3]))
        program.ask(0, 2)
    torch.cuda.synchronize()
    print(f"ready {torch.cuda.max_memory_reserved() >> 20} {getattr(program, 'batch', 0)}", flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        call = {"steps": getattr(program, "steps", None), "ask": getattr(program, "ask", None)}[what]
        print(json.dumps(call(*map(int, numbers))), flush=True)


if __name__ == "__main__":
    main()
