"""Tiny random models in the form of Hugging Face folders, one for each family that the engine runs.

The weights are drawn with a larger spread than training starts from, so that greedy continuations vary from prompt to
prompt and the best token is ahead of the second by more than rounding.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

Family = Literal["qwen3", "qwen2", "llama"]

VOCAB_SIZE = 512  # of the model: a few rows more than the tokenizer has tokens, as in published checkpoints
TRAINED_TOKENS = 500  # bytes and merges
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
THINK_TOKENS = ("<think>", "</think>")  # added, but not special: decoding keeps them

CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and '</think>' in message.content %}
        {{- message.content.split('</think>')[-1].lstrip('\\n') }}
    {%- else %}
        {{- message.content }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# Letters with one leading mark, single digits, runs of marks, line ends with the space before them, other space.
SPLIT_PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

TRAINING_TEXT = (
    "This agreement is made between the supplier and the customer on the first day of March 2026.",
    "The customer shall pay the amount of 12,500 within thirty days after the date of the invoice.",
    "If the supplier does not deliver in time, a penalty of two percent of the price is due for each week.",
    "All rights in the work, the text and the drawings pass to the customer when the price is paid.",
    "Any dispute that the parties cannot settle between themselves is decided by the court of the seller's seat.",
    "List the parties, the term, the penalty and the dispute clause of the document, with their numbers.",
    "You are a careful assistant. Answer the question from the document alone.\n\nDo not guess.\n",
    "The ticket says: my printer is out of paper, and nobody answers the telephone. Please help!\n",
    "本合同由甲方和乙方于二〇二六年三月一日签订。甲方应在收到发票后三十日内支付合同价款。",
    "乙方未按时交付的，每逾期一周应支付合同价款百分之二的违约金。因本合同发生的争议，由甲方所在地人民法院管辖。",
    "请列出合同的当事人、期限、违约金和争议解决条款。本合同一式两份，甲方和乙方各执一份。",
)


def make_tiny_model(
    folder: Path,
    family: Family,
    *,
    seed: int = 0,
    tie_word_embeddings: bool,
    sharded: bool = False,
    dtype: torch.dtype = torch.float32,
    **config_overrides: Any,
) -> Path:
    """Write a tiny random model of the family with its tokenizer into `folder`, and return the folder.

    The same arguments give the same weights. `sharded` gives several safetensors files with an index.
    """
    config_class, model_class = {
        "qwen3": (Qwen3Config, Qwen3ForCausalLM),
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "llama": (LlamaConfig, LlamaForCausalLM),
    }[family]
    write_tiny_tokenizer(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    end, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    values: dict[str, Any] = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32 if family == "qwen3" else 16,  # Qwen3: apart from hidden_size / num_attention_heads
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "tie_word_embeddings": tie_word_embeddings,
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": pad,
    }
    model = model_class(config_class(**{**values, **config_overrides})).eval()
    _draw_weights(model, seed)
    model = model.to(dtype)
    model.generation_config.eos_token_id = [end, pad]
    model.generation_config.pad_token_id = pad
    model.save_pretrained(folder, max_shard_size="100KB" if sharded else "1GB")
    return folder


def _draw_weights(model: PreTrainedModel, seed: int) -> None:
    """Norms 1 +- 0.2, biases and linear layers with a spread of 0.3, embeddings 1 (0.6 where they are the head too)."""
    generator = torch.Generator().manual_seed(seed)
    embedding_std = 0.6 if model.config.tie_word_embeddings else 1.0
    with torch.no_grad():
        for name, weight in model.named_parameters():  # a tied head comes once, as the embedding
            drawn = torch.randn(weight.shape, generator=generator)
            if "norm" in name:
                weight.copy_(1 + 0.2 * drawn.clamp(-2, 2))
            else:
                weight.copy_((embedding_std if "embed_tokens" in name else 0.3) * drawn)


def write_tiny_tokenizer(folder: Path) -> Path:
    """Write tokenizer.json and tokenizer_config.json of a small byte-level BPE with a ChatML template."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TRAINED_TOKENS,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(TRAINING_TEXT, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in THINK_TOKENS])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return folder
