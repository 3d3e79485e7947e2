"""提示词都放这里。"""

DIGEST_SYSTEM = "你是聊天记录整理员，只根据给出的记录写摘要，不要添油加醋。"
DIGEST_USER = "请用三句话以内总结下面的聊天记录：\n\n{history}"
CLASSIFY = "把这句话归类，必须调用 put_label：{text}"

LABEL_TOOL = {
    "type": "function",
    "function": {
        "name": "put_label",
        "description": "给句子贴标签",
        "parameters": {
            "type": "object",
            "properties": {
                "label": {"type": "string", "enum": ["提问", "闲聊", "吐槽", "广告"]},
                "score": {"type": "number", "description": "把握，0 到 1"},
            },
            "required": ["label"],
        },
    },
}

MOOD_NOTE = "【气氛参考】群里现在{mood}，回复时请照顾到这一点，不要复述本段。"
