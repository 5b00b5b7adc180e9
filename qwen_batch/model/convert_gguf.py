"""Turn a GGUF file of a Llama-like model with a byte-level BPE into a Hugging Face folder in bfloat16.

    python -m qwen_batch.model.convert_gguf FILE FOLDER

Needs the packages gguf (tried: 0.17 to 0.19) and tokenizers, and neither torch nor transformers. The GGUF import of
transformers (tried: 5.24) gives the same weights bit for bit, but it drops the splitting of digits from the tokenizer,
so that numbers become other tokens than the model was trained on.

Formats: the GGUF specification (docs/gguf.md of ggml), the safetensors format description.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, TokenType
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from qwen_batch.model.home import sync

LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def convert(gguf: Path, folder: Path) -> None:
    """Write config, tokenizer and weights of the GGUF file into the new folder, synced to the disk."""
    reader = GGUFReader(gguf)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    if facts["general.architecture"] != "llama" or facts["tokenizer.ggml.pre"] != "smollm":
        raise SystemExit(f"{gguf.name}: only Llama models with the SmolLM tokenizer are known here")
    folder.mkdir()
    _write_json(folder / "config.json", _config(facts, tied=all(t.name != "output.weight" for t in reader.tensors)))
    _write_json(folder / "generation_config.json", _token_ids(facts))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(facts))
    _tokenizer(facts).save(str(folder / "tokenizer.json"))
    _write_weights(reader, facts, folder / "model.safetensors")
    for path in (*folder.iterdir(), folder):
        sync(path)


def _config(facts: dict[str, Any], tied: bool) -> dict[str, Any]:
    heads, hidden = facts["llama.attention.head_count"], facts["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": facts["llama.vocab_size"],
        "hidden_size": hidden,
        "intermediate_size": facts["llama.feed_forward_length"],
        "num_hidden_layers": facts["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": facts["llama.attention.head_count_kv"],
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "max_position_embeddings": facts["llama.context_length"],
        "rope_theta": facts["llama.rope.freq_base"],
        # GGUF holds it as a 32-bit float: back to the number that was written down.
        "rms_norm_eps": float(f"{facts['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "tie_word_embeddings": tied,
        **_token_ids(facts),
    }


def _token_ids(facts: dict[str, Any]) -> dict[str, int]:
    return {
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
    }


def _tokenizer_config(facts: dict[str, Any]) -> dict[str, Any]:
    tokens = facts["tokenizer.ggml.tokens"]
    names = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{name}_token": tokens[facts[f"tokenizer.ggml.{key}_token_id"]] for name, key in names.items()},
        "model_max_length": facts["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": facts["tokenizer.chat_template"],
    }


def _tokenizer(facts: dict[str, Any]) -> Tokenizer:
    """Byte-level BPE in which every digit stands alone."""
    tokens = facts["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = facts["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == TokenType.CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def _write_weights(reader: GGUFReader, facts: dict[str, Any], path: Path) -> None:
    """Write the safetensors file tensor by tensor, so that only one of them is in memory.

    The file is the header's length (8 bytes, little-endian), the header (JSON, padded), and the bytes in its order.
    """
    heads = {"attn_q": facts["llama.attention.head_count"], "attn_k": facts["llama.attention.head_count_kv"]}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in reader.tensors:
        start, end = end, end + 2 * int(tensor.n_elements)
        shape = [int(size) for size in reversed(tensor.shape)]  # GGUF names the innermost dimension first
        header[tensor_name(tensor.name)] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in reader.tensors:
            values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
            kind = tensor.name.removesuffix(".weight").split(".")[-1]
            file.write(to_bfloat16(unpermute(values, heads[kind]) if kind in heads else values).tobytes())


def tensor_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    if name in OTHER_TENSORS:
        return OTHER_TENSORS[name]
    _, layer, kind, _ = name.split(".")
    return f"model.layers.{layer}.{LAYER_TENSORS[kind]}.weight"


def unpermute(weight: npt.NDArray[np.float32], num_heads: int) -> npt.NDArray[np.float32]:
    """Undo the row order of GGUF query and key weights, [num_heads * head_dim, hidden].

    GGUF rotates neighbouring rows of a head together, Hugging Face rotates row i with row i + head_dim / 2.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The upper halves of finite float32 numbers, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
