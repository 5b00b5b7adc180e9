"""Our own products and the layers in one call: right numbers, and rows that do not depend on their company."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from qwen_batch.errors import ModelError
from qwen_batch.model.attention import StepInput
from qwen_batch.model.backend import TorchBackend
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.decoder import Decoder
from qwen_batch.model.kv_cache import KVCache
from qwen_batch.model.layers import LayerWeights, Weights
from qwen_batch.model.linear import NativeLinear, PlainLinear, make_linear
from qwen_batch.model.native import NativeBackend
from qwen_batch.model.native_library import NativeLibrary, load_native
from qwen_batch.model.rope import Rope
from qwen_batch.model.workspace import NewMemory
from tests.model.test_model_native import CPU, TOLERANCE, close, fake_layer, filled_cache, make_config, make_step


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def library(request: pytest.FixtureRequest) -> NativeLibrary:
    try:
        library = load_native(request.param)
    except ModelError as error:
        pytest.skip(str(error))
    if not library.has_vectors:
        pytest.skip("this CPU has no 512-bit vectors for this dtype")
    return library


def draw(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 8, 9, 193, 401])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 2), (47, 64), (49, 6), (144, 130)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_products(library: NativeLibrary, rows: int, outputs: int, inputs: int, with_bias: bool) -> None:
    x, weight = draw(rows, inputs, seed=1, dtype=library.dtype), draw(outputs, inputs, seed=2, dtype=library.dtype)
    bias = draw(outputs, seed=3, dtype=library.dtype) if with_bias else None
    linear = NativeLinear.pack(library, weight, bias)
    expected = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    scale = TOLERANCE[library.dtype] * inputs**0.5
    torch.testing.assert_close(linear(x).double(), expected, atol=scale, rtol=scale)
    alone = torch.cat([linear(row[None]) for row in x])
    assert torch.equal(linear(x), alone), "a row is the same to the bit whatever the others are"


@pytest.mark.parametrize(("heads", "kv_heads", "dim", "block_size"), [(6, 2, 64, 16), (8, 1, 32, 8), (4, 4, 128, 64)])
def test_a_shared_prefix_is_read_once_and_gives_the_same(
    library: NativeLibrary, heads: int, kv_heads: int, dim: int, block_size: int
) -> None:
    config = make_config(heads, kv_heads, dim, qk_norm=False)
    step = share_first_blocks(
        make_step([(n, 1) for n in (140, 200, 131, 150, 63)], block_size, 200, seed=8), block_size
    )
    qkv = draw(5, config.q_size + 2 * config.kv_size, seed=9, dtype=library.dtype)
    rope, layer = Rope(config.rope, CPU, library.dtype), fake_layer(None, None)

    def run(backend: type, given: StepInput, *first: object) -> Tensor:
        cache = filled_cache(config, block_size, 200, library.dtype)
        result: Tensor = backend(*first, config, rope, given, cache, NewMemory(CPU)).attend(0, layer, qkv.clone())
        return result

    shared, apart = run(NativeBackend, step, library), run(NativeBackend, replace(step, block_lists=()), library)
    close(shared, run(TorchBackend, step))
    close(shared, apart)
    assert not torch.equal(shared, torch.zeros_like(shared))


def share_first_blocks(step: StepInput, block_size: int) -> StepInput:
    """All but the last sequence begin with the blocks of the first, 128 tokens of them."""
    tables = step.block_tables.clone()
    tables[1:-1, : 128 // block_size] = tables[0, : 128 // block_size]
    return replace(step, block_tables=tables, block_lists=tables.tolist())


def random_decoder(library: NativeLibrary | None, dtype: torch.dtype, *, deterministic: bool = False) -> Decoder:
    config = replace(make_config(6, 2, 64, qk_norm=True), num_layers=3)
    seeds = iter(range(100, 200))

    def linear(outputs: int, inputs: int) -> NativeLinear | PlainLinear:
        weight = (draw(outputs, inputs, seed=next(seeds)) / inputs**0.5).to(dtype)
        return PlainLinear(weight) if library is None else NativeLinear.pack(library, weight, None)

    def norm(size: int) -> Tensor:
        return (1 + draw(size, seed=next(seeds)) / 5).to(dtype)

    def layer(config: ModelConfig) -> LayerWeights:
        return LayerWeights(
            input_norm=norm(config.hidden_size),
            qkv=linear(config.q_size + 2 * config.kv_size, config.hidden_size),
            q_norm=norm(config.head_dim),
            k_norm=norm(config.head_dim),
            output=linear(config.hidden_size, config.q_size),
            post_norm=norm(config.hidden_size),
            gate_up=linear(2 * 38, config.hidden_size),
            down=linear(config.hidden_size, 38),
        )

    config = replace(config, intermediate_size=38)
    layers = tuple(layer(config) for _ in range(config.num_layers))
    embedding = draw(config.vocab_size, config.hidden_size, seed=99, dtype=dtype)
    weights = Weights(embedding, layers, norm(config.hidden_size), linear(config.vocab_size, config.hidden_size))
    return Decoder(config, weights, library, deterministic=deterministic)


def with_tokens(step: StepInput, rows: list[int], seed: int = 0) -> StepInput:
    """Random tokens; logits of the last token of these rows."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 50, (len(step.positions),), generator=generator)
    ends = [step.cu_seqlens_q[row + 1] - 1 for row in rows]
    return replace(step, token_ids=tokens, logit_indices=torch.tensor(ends, dtype=torch.int64))


def empty_cache(decoder: Decoder, num_blocks: int) -> KVCache:
    return KVCache.allocate(decoder.config, num_blocks, 16, decoder.weights.dtype, CPU)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [1, 3], [2], []])
def test_layers_in_one_call_give_the_logits_of_torch(library: NativeLibrary, rows: list[int]) -> None:
    step = with_tokens(make_step([(0, 70), (40, 1), (33, 9), (0, 1)], 16, 20, seed=4), rows)
    results, caches = [], []
    for decoder in (random_decoder(library, library.dtype), random_decoder(None, library.dtype)):
        cache = filled_cache(decoder.config, 16, 20, library.dtype)
        results.append(decoder.forward(step, cache).float())
        caches.append(cache)
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.08}[library.dtype]
    assert results[0].shape == (len(rows), 50)
    torch.testing.assert_close(*results, atol=tolerance, rtol=tolerance)
    for mine, other in zip(caches[0].keys, caches[1].keys, strict=True):
        torch.testing.assert_close(mine.float(), other.float(), atol=tolerance, rtol=tolerance)


def run_pieces(decoder: Decoder, tokens: list[int], cuts: list[int], company: int) -> Tensor:
    """Logits of the last token, computed in pieces that end at `cuts`, beside `company` other sequences a step."""
    cache, table = empty_cache(decoder, 200), list(range(100, 120))
    start, logits = 0, torch.empty(0)
    for end in cuts:
        others = make_step([(0, 1), (0, 50), (17, 3)][:company], 16, 90, seed=end) if company else None
        mine = StepInput(
            token_ids=torch.tensor(tokens[start:end]),
            positions=torch.arange(start, end),
            slot_mapping=torch.tensor([table[at // 16] * 16 + at % 16 for at in range(start, end)]),
            block_tables=torch.tensor([table]),
            logit_indices=torch.tensor([end - start - 1]),
            cu_seqlens_q=[0, end - start],
            context_lens=[end],
        )
        logits = decoder.forward(mine if others is None else join(mine, with_tokens(others, [])), cache)[0]
        start = end
    return logits


def join(first: StepInput, second: StepInput) -> StepInput:
    width = max(first.block_tables.shape[1], second.block_tables.shape[1])
    tables = [torch.nn.functional.pad(t, (0, width - t.shape[1])) for t in (first.block_tables, second.block_tables)]
    offset = first.cu_seqlens_q[-1]
    return StepInput(
        token_ids=torch.cat((first.token_ids, second.token_ids)),
        positions=torch.cat((first.positions, second.positions)),
        slot_mapping=torch.cat((first.slot_mapping, second.slot_mapping)),
        block_tables=torch.cat(tables),
        logit_indices=first.logit_indices,
        cu_seqlens_q=[*first.cu_seqlens_q, *(offset + end for end in second.cu_seqlens_q[1:])],
        context_lens=[*first.context_lens, *second.context_lens],
    )


def test_deterministic_logits_are_the_same_to_the_bit(library: NativeLibrary) -> None:
    decoder = random_decoder(library, library.dtype, deterministic=True)
    tokens = torch.randint(0, 50, (150,), generator=torch.Generator().manual_seed(7)).tolist()
    whole = run_pieces(decoder, tokens, [150], company=0)
    for cuts in ([149, 150], [1, 2, 64, 150], [100, 101, 102, 150], list(range(1, 151))):
        for company in (0, 3):
            assert torch.equal(run_pieces(decoder, tokens, cuts, company), whole), (cuts, company)


def test_deterministic_needs_its_own_kernels() -> None:
    with pytest.raises(ModelError, match=r"engine\.deterministic: .* use backend native"):
        random_decoder(None, torch.float32, deterministic=True)


def test_steady_steps_allocate_no_buffers(library: NativeLibrary) -> None:
    decoder = random_decoder(library, library.dtype)
    cache = empty_cache(decoder, 20)
    step = with_tokens(make_step([(0, 70), (0, 1)], 16, 20, seed=4), [0, 1])
    decoder.forward(step, cache)
    layers = decoder._layers
    assert layers is not None
    before = layers.num_grown
    for rows in ([0], [0, 1], []):
        decoder.forward(with_tokens(make_step([(0, 50), (9, 1), (3, 4)], 16, 20, seed=5), rows), cache)
    assert layers.num_grown == before == 1


@pytest.fixture
def int8_library(library: NativeLibrary) -> NativeLibrary:
    if not library.has_int8:
        pytest.skip("this CPU has no VNNI")
    return library


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 9, 195])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 64), (47, 128), (49, 64), (144, 576)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_products_in_int8(int8_library: NativeLibrary, rows: int, outputs: int, inputs: int, with_bias: bool) -> None:
    """Equal to the same rounding in float64, but for ties and for the last rounding to the dtype."""
    dtype = int8_library.dtype
    x, weight = draw(rows, inputs, seed=1, dtype=dtype), draw(outputs, inputs, seed=2, dtype=dtype)
    x[:, 5] *= 40  # an outlier must hurt its own group alone
    bias = draw(outputs, seed=3, dtype=dtype) if with_bias else None
    linear = NativeLinear.pack_int8(int8_library, weight, bias)
    parts = weight.float().view(outputs, -1, 64)
    scales = parts.abs().amax(-1, keepdim=True) / 127
    rounded = ((parts / scales).round().double() * scales.double()).view(outputs, inputs)
    groups = x.float().view(rows, -1, 64)
    x_scales = groups.abs().amax(-1, keepdim=True) / 127
    near = ((groups * (1 / x_scales)).round().double() * x_scales.double()).view(rows, inputs)
    expected = near @ rounded.T + (0 if bias is None else bias.double())
    error = (linear(x).double() - expected).abs() - TOLERANCE[dtype] * expected.abs()
    step = x_scales.amax(1).double() * weight.abs().amax().double()  # a tie that is rounded the other way
    assert (error <= step + 1e-5).all()
    assert error.clamp_min(0).mean() < 1e-3, "ties are few"
    assert torch.equal(linear(x), torch.cat([linear(row[None]) for row in x]))


def test_int8_keeps_zeros_and_takes_what_it_can(int8_library: NativeLibrary) -> None:
    dtype = int8_library.dtype
    linear = NativeLinear.pack_int8(int8_library, torch.zeros(5, 64, dtype=dtype), None)
    assert torch.equal(linear(draw(3, 64, seed=1, dtype=dtype)), torch.zeros(3, 5, dtype=dtype))
    assert torch.equal(linear(torch.zeros(3, 64, dtype=dtype)), torch.zeros(3, 5, dtype=dtype))
    made = [make_linear(draw(8, inputs, seed=2, dtype=dtype), None, int8_library, int8=True) for inputs in (64, 96)]
    in_int8 = [isinstance(linear, NativeLinear) and bool(linear.product.is_int8) for linear in made]
    assert in_int8 == [True, False], "a group has 64 inputs"
