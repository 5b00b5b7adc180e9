Usage: qwen-batch extract [OPTIONS] {FILE...}...
Try 'qwen-batch extract -h' for help.
╭─ Error ──────────────────────────────────────────────────────────────────────╮
│ Missing argument 'FILE...'.                                                  │
╰──────────────────────────────────────────────────────────────────────────────╯
