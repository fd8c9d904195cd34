"""Transformers by their published shapes: parameters and floating-point operations of their parts.

Sources: Llama 2 (arXiv 2307.09288) and Llama 3 (arXiv 2407.21783) with their released
configurations, GPT-3 (arXiv 2005.14165, table 2.1; the hidden size of 13B is 40 heads of 128, where
the table says 5140), Mixtral 8x7B (arXiv 2401.04088), DeepSeek-V3 (arXiv 2412.19437).
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Latent:
    """Attention whose keys and values follow from a short vector of a token (MLA). queries, keys:
    values of these vectors; position: of a key that all heads share; key, value: of a head's."""

    queries: int
    keys: int
    position: int
    key: int
    value: int


@dataclass(frozen=True)
class Shape:
    """A decoder. gpt: as GPT-2, with biases, LayerNorm, two matrices in the MLP, learned positions,
    and one matrix for embedding and head; otherwise as Llama, with RMSNorm and three matrices.
    shared: experts that all tokens have besides their top_k, on their own rank."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    context: int
    gpt: bool = False
    experts: int = 0
    top_k: int = 0
    shared: int = 0
    latent: Latent | None = None

    @property
    def kv_width(self) -> int:
        """Values of all keys of a token; half of those that are kept of keys and values."""
        if self.latent:
            return (self.latent.keys + self.latent.position) // 2
        return self.hidden // self.heads * self.kv_heads

    @property
    def core_width(self) -> int:
        """Values of a token's queries, or of what attention makes of values: the mean of both."""
        if self.latent:
            return self.heads * (self.latent.key + self.latent.position + self.latent.value) // 2
        return self.hidden

    @property
    def outputs(self) -> int:
        """Weights of the last matrix of attention."""
        return self.hidden * (self.heads * self.latent.value if self.latent else self.hidden)

    @property
    def used(self) -> int:
        """MLPs that a token passes in a layer."""
        return max(self.top_k, 1) + self.shared

    @property
    def layer_shape(self) -> tuple[int | bool, ...]:
        """Shape that decides the times of a layer."""
        return self.hidden, self.heads, self.kv_heads, self.ffn, self.gpt, self.experts, self.top_k

    @property
    def attention(self) -> int:
        """Weights of the matrices of attention in a layer."""
        if (made := self.latent) is None:
            return self.hidden * (self.hidden + 2 * self.kv_width) + self.outputs
        into = self.hidden * (made.queries + made.keys + made.position)
        of_heads = made.queries * (made.key + made.position) + made.keys * (made.key + made.value)
        return into + self.heads * of_heads + self.outputs

    @property
    def mlp(self) -> int:
        """Weights of the matrices of an MLP, or of one expert."""
        return (2 if self.gpt else 3) * self.hidden * self.ffn

    @property
    def norm(self) -> int:
        return (2 if self.gpt else 1) * self.hidden

    def layer(self, tp: int = 1, ep: int = 1) -> tuple[int, int]:
        """Parameters of a layer on a rank: those that all data parallel ranks have, and those of
        its experts. Norms, routers and biases of outputs are on every tensor parallel rank."""
        sharded, whole = self.attention + self.shared * self.mlp, 2 * self.norm
        experts = 0
        if self.latent:
            whole += self.latent.queries + self.latent.keys
        if self.experts:
            whole += self.hidden * self.experts
            experts = self.experts // ep * self.mlp // tp
        else:
            sharded += self.mlp
        if self.gpt:
            sharded += 3 * self.hidden + self.ffn
            whole += 2 * self.hidden
        return sharded // tp + whole, experts

    def embedding(self, tp: int = 1) -> int:
        """Parameters of the embedding on a rank, which has a part of the vocabulary."""
        positions = self.context * self.hidden if self.gpt else 0
        return self.words(tp) + positions

    def words(self, tp: int = 1) -> int:
        """Parameters of its part of the vocabulary, without positions, on a rank."""
        return -(-self.vocabulary // tp) * self.hidden

    def head(self, tp: int = 1) -> int:
        """The same of the last norm and the head, which may be the embedding."""
        return self.norm + (0 if self.gpt else self.words(tp))

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.embedding() + self.head() + self.layers * sum(self.layer())


SHAPES = {
    "llama2-7b": Shape(32, 4096, 32, 32, 11008, 32_000, 4096),
    "llama2-13b": Shape(40, 5120, 40, 40, 13_824, 32_000, 4096),
    "llama2-70b": Shape(80, 8192, 64, 8, 28_672, 32_000, 4096),
    "llama3-8b": Shape(32, 4096, 32, 8, 14_336, 128_256, 8192),
    "llama3-70b": Shape(80, 8192, 64, 8, 28_672, 128_256, 8192),
    "gpt3-13b": Shape(40, 5120, 40, 40, 20_480, 50_257, 2048, gpt=True),
    "gpt3-175b": Shape(96, 12_288, 96, 96, 49_152, 50_257, 2048, gpt=True),
    "mixtral-8x7b": Shape(32, 4096, 32, 8, 14_336, 32_000, 32_768, experts=8, top_k=2),
    # Its 58 layers with experts; the three before them have none, and are left out.
    "deepseek-v3": Shape(
        *(58, 7168, 128, 128, 2048, 129_280, 131_072, False, 256, 8),
        shared=1,
        latent=Latent(queries=1536, keys=512, position=64, key=128, value=128),
    ),
}


def shape_of(model: str, layers: int = 0) -> Shape:
    """The shape of a model, with so many layers; 0: as published."""
    return replace(SHAPES[model], layers=layers or SHAPES[model].layers)
