"""Safetensors files -> the tensors of a decoder, on the device, in its dtype, one layer at a time.

Each tensor is copied from the mapped file straight into its place; query, key and value projections, and gate and up,
are fused on the way. The file is mapped anew for each tensor, so that no second copy of the model stays in memory.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from qwen_batch.errors import ModelError
from qwen_batch.model.config import ModelConfig
from qwen_batch.model.layers import LayerWeights, Weights
from qwen_batch.model.linear import Linear, NativeLinear, PlainLinear, make_linear
from qwen_batch.model.native_library import GROUP, NativeLibrary
from qwen_batch.model.smoothing import Smoother

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Checkpoint:
    """The safetensors files of a folder, sharded or not."""

    folder: Path
    files: dict[str, Path]  # tensor name -> file
    used: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        index = folder / "model.safetensors.index.json"
        if index.is_file():
            return cls(folder, cls._read_index(index))
        single = folder / "model.safetensors"
        files = [single] if single.is_file() else sorted(folder.glob("*.safetensors"))
        if not files:
            raise ModelError(f"{folder}: no *.safetensors file; other weight formats are not read")
        return cls(folder, {name: file for file in files for name in _tensor_names(file)})

    @staticmethod
    def _read_index(index: Path) -> dict[str, Path]:
        try:
            names = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{index}: cannot be read: {error!r}") from None
        missing = sorted({file for file in names.values() if not (index.parent / file).is_file()})
        if missing:
            raise ModelError(f"{index.parent}: {missing[0]} is named in the index but is not there; fetch it again")
        return {name: index.parent / file for name, file in names.items()}

    def read_into(self, target: Tensor, name: str) -> None:
        """Copy a tensor of the checkpoint into `target`, which gives the shape, dtype and device."""
        file = self.files.get(name)
        if file is None:
            raise ModelError(f"{self.folder}: tensor {name} is missing; the checkpoint is not complete")
        try:
            with safe_open(file, framework="pt") as tensors:
                source = tensors.get_tensor(name)
                if source.shape != target.shape:
                    raise ModelError(
                        f"{file}: {name} has shape {list(source.shape)}, config.json asks for {list(target.shape)}"
                    )
                target.copy_(source)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{file}: damaged: {error}; fetch it again") from None
        self.used.add(name)

    def check_all_used(self) -> None:
        """A tensor that we did not read means another architecture than the one that we compute."""
        ignored = ("rotary_emb.inv_freq", "lm_head.weight")
        unread = sorted(name for name in set(self.files) - self.used if not name.endswith(ignored))
        if unread:
            raise ModelError(
                f"{self.folder}: {len(unread)} tensors are not part of this architecture, such as {unread[0]}"
            )


def _tensor_names(file: Path) -> list[str]:
    try:
        with safe_open(file, framework="pt") as tensors:
            return list(tensors.keys())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file}: damaged: {error}; fetch it again") from None


@dataclass(frozen=True, slots=True)
class _Loader:
    checkpoint: Checkpoint
    dtype: torch.dtype
    device: torch.device
    native: NativeLibrary | None
    int8: bool

    def read(self, names: Sequence[str], sizes: Sequence[int], *inner: int) -> Tensor:
        """Tensors [size, *inner] of these names, below one another in one new tensor."""
        fused = torch.empty((sum(sizes), *inner), dtype=self.dtype, device=self.device)
        for name, part in zip(names, torch.split(fused, list(sizes)), strict=True):
            self.checkpoint.read_into(part, name)
        return fused

    def make_layer(self, config: ModelConfig, index: int, smoother: Smoother | None) -> LayerWeights:
        """Products in the form that this machine computes with."""
        layer = self.read_layer(config, index)
        if smoother is not None:
            smoother.smooth(layer)
        return dataclasses.replace(
            layer,
            qkv=self._make(layer.qkv),
            output=self._make(layer.output),
            gate_up=self._make(layer.gate_up),
            down=self._make(layer.down),
        )

    def _make(self, linear: Linear) -> Linear:
        assert isinstance(linear, PlainLinear), "read_layer makes no other"
        return make_linear(linear.weight, linear.bias, self.native, int8=self.int8)

    def read_layer(self, config: ModelConfig, index: int) -> LayerWeights:
        """Products as they are stored."""
        at = f"model.layers.{index}."
        attention, mlp = at + "self_attn.", at + "mlp."
        hidden, heads = config.hidden_size, config.head_dim
        qkv = [f"{attention}{name}_proj" for name in "qkv"]
        qkv_sizes = (config.q_size, config.kv_size, config.kv_size)
        gate_up, gate_up_sizes = [f"{mlp}{name}_proj" for name in ("gate", "up")], (config.intermediate_size,) * 2

        def linear(names: Sequence[str], sizes: Sequence[int], width: int, has_bias: bool) -> Linear:
            weight = self.read([f"{name}.weight" for name in names], sizes, width)
            bias = self.read([f"{name}.bias" for name in names], sizes) if has_bias else None
            return PlainLinear(weight, bias)

        return LayerWeights(
            input_norm=self.read([at + "input_layernorm.weight"], [hidden]),
            qkv=linear(qkv, qkv_sizes, hidden, config.qkv_bias),
            q_norm=self.read([attention + "q_norm.weight"], [heads]) if config.qk_norm else None,
            k_norm=self.read([attention + "k_norm.weight"], [heads]) if config.qk_norm else None,
            output=linear([attention + "o_proj"], [hidden], config.q_size, config.output_bias),
            post_norm=self.read([at + "post_attention_layernorm.weight"], [hidden]),
            gate_up=linear(gate_up, gate_up_sizes, hidden, config.mlp_bias),
            down=linear([mlp + "down_proj"], [hidden], config.intermediate_size, config.mlp_bias),
        )


def load_weights(
    folder: Path,
    config: ModelConfig,
    dtype: torch.dtype,
    device: torch.device,
    native: NativeLibrary | None = None,
    *,
    int8: bool = False,
) -> Weights:
    """Read all weights. Peak memory is the model plus its largest layer or tensor. `int8` smooths and rounds those of
    the layers, not the embedding and the head. Raises ModelError."""
    if int8 and (native is None or not native.has_int8):
        raise ModelError(
            "engine.weights int8: products in int8 need dtype bfloat16 or float32, backend native, and a CPU with "
            "AVX-512 VNNI; change what is missing, or use weights auto"
        )
    return read_weights(_Loader(Checkpoint.open(folder), dtype, device, native, int8), config)


def _check_int8(layers: Sequence[LayerWeights]) -> None:
    """Products whose inputs are no multiple of GROUP stay as they are: say so, or refuse where that is all of them."""
    products = [linear for layer in layers for linear in (layer.qkv, layer.output, layer.gate_up, layer.down)]
    count = sum(isinstance(linear, NativeLinear) and bool(linear.product.is_int8) for linear in products)
    if not count:
        raise ModelError(
            f"engine.weights int8: no product of this model has a multiple of {GROUP} inputs, so none can be rounded; "
            "use weights auto"
        )
    if count < len(products):
        logger.warning("engine.weights int8: %d of %d products are in int8", count, len(products))


def read_weights(loader: _Loader, config: ModelConfig) -> Weights:
    """Every tensor is made once, in the place where it stays, and read into that."""
    embedding = loader.read(["model.embed_tokens.weight"], [config.vocab_size], config.hidden_size)
    smoother = Smoother(config, embedding) if loader.int8 else None
    layers = tuple(loader.make_layer(config, index, smoother) for index in range(config.num_layers))
    if loader.int8:
        _check_int8(layers)
    norm = loader.read(["model.norm.weight"], [config.hidden_size])
    head = embedding
    if not config.tie_word_embeddings:
        head = loader.read(["lm_head.weight"], [config.vocab_size], config.hidden_size)
    loader.checkpoint.check_all_used()
    return Weights(embedding, layers, norm, make_linear(head, native=loader.native))
