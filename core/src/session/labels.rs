//! What a turn does, what it is about and whom it names: by closed lists of words in English and
//! Chinese. Labels serve filters and the dialogue state; nothing is retired or hidden by them.

use crate::text::{names, normalize, protected, sentences};

/// Most topics, and most names, that one turn gets.
pub const LABELS_MAX: usize = 8;
/// Longest text that is looked at, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// Importance of a turn that rules say nothing about.
const PLAIN: f32 = 0.3;
/// Importance of a turn with an amount, a date, a dose or a name.
const WITH_TERMS: f32 = 0.4;
/// Importance of greetings, thanks and the like.
const SMALL_TALK: f32 = 0.2;

/// What is known of a turn by its words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Labels {
    /// `ask`, `request`, `confirm`, `deny`, `greet`, `thank` or `inform`; none where there are no words.
    pub act: Option<&'static str>,
    /// Such as `food` or `travel`.
    pub topics: Vec<&'static str>,
    /// The names in it.
    pub entities: Vec<String>,
    /// Whether it asks something.
    pub asks: bool,
    /// What it is worth, where no rule of facts knows better.
    pub importance: f32,
}

/// Words in English, compared as whole words, and in Chinese, compared as parts.
struct Words {
    label: &'static str,
    english: &'static [&'static str],
    chinese: &'static [&'static str],
}

const TOPICS: [Words; 12] = [
    Words {
        label: "food",
        english: &[
            "eat",
            "ate",
            "food",
            "dinner",
            "lunch",
            "breakfast",
            "restaurant",
            "cook",
            "cooking",
            "recipe",
            "drink",
            "coffee",
            "tea",
            "vegetarian",
            "vegan",
            "spicy",
            "menu",
            "meal",
        ],
        chinese: &["吃", "喝", "饭", "菜", "餐", "咖啡", "茶", "辣", "素食", "食谱", "做饭"],
    },
    Words {
        label: "health",
        english: &[
            "doctor", "hospital", "medicine", "aspirin", "allergy", "allergic", "pain", "sick", "ill",
            "dose", "mg", "tablet", "tablets", "pill", "pills", "therapy", "blood", "sleep", "diet",
            "headache",
        ],
        chinese: &["医生", "医院", "药", "过敏", "疼", "病", "剂量", "毫克", "血压", "睡眠", "头痛", "体检"],
    },
    Words {
        label: "work",
        english: &[
            "work",
            "job",
            "office",
            "boss",
            "colleague",
            "project",
            "deadline",
            "meeting",
            "client",
            "salary",
            "company",
            "interview",
            "report",
        ],
        chinese: &[
            "工作", "上班", "老板", "同事", "项目", "开会", "会议", "客户", "工资", "公司", "面试", "加班",
        ],
    },
    Words {
        label: "travel",
        english: &[
            "travel", "trip", "flight", "flights", "hotel", "train", "airport", "ticket", "tickets", "visa",
            "vacation", "holiday", "luggage", "passport",
        ],
        chinese: &[
            "旅行", "旅游", "航班", "飞机", "酒店", "火车", "高铁", "机场", "车票", "机票", "签证", "护照",
            "出差",
        ],
    },
    Words {
        label: "money",
        english: &[
            "money",
            "price",
            "pay",
            "paid",
            "cost",
            "costs",
            "budget",
            "bank",
            "loan",
            "invoice",
            "refund",
            "euros",
            "dollars",
            "tax",
            "insurance",
        ],
        chinese: &["钱", "价格", "付款", "费用", "预算", "银行", "贷款", "发票", "退款", "税", "保险", "元"],
    },
    Words {
        label: "family",
        english: &[
            "family", "wife", "husband", "son", "daughter", "mother", "father", "mom", "dad", "sister",
            "brother", "kids", "child", "children", "parents", "baby",
        ],
        chinese: &[
            "家人", "妻子", "老婆", "丈夫", "老公", "儿子", "女儿", "妈妈", "爸爸", "姐姐", "妹妹", "哥哥",
            "弟弟", "孩子",
        ],
    },
    Words {
        label: "home",
        english: &[
            "house",
            "apartment",
            "rent",
            "kitchen",
            "furniture",
            "garden",
            "moved",
            "landlord",
            "repair",
        ],
        chinese: &["房子", "公寓", "租", "厨房", "家具", "花园", "搬家", "房东", "维修", "装修"],
    },
    Words {
        label: "study",
        english: &[
            "study",
            "school",
            "university",
            "exam",
            "course",
            "homework",
            "teacher",
            "class",
            "learn",
            "degree",
        ],
        chinese: &["学习", "学校", "大学", "考试", "课程", "作业", "老师", "上课", "毕业", "专业"],
    },
    Words {
        label: "shopping",
        english: &[
            "buy", "bought", "order", "ordered", "shop", "shopping", "store", "delivery", "size", "return",
        ],
        chinese: &["买", "订单", "购物", "商店", "快递", "发货", "退货", "尺码", "淘宝", "京东"],
    },
    Words {
        label: "schedule",
        english: &[
            "appointment",
            "calendar",
            "remind",
            "reminder",
            "schedule",
            "tomorrow",
            "tonight",
            "postpone",
        ],
        chinese: &["预约", "日程", "提醒", "安排", "明天", "今晚", "推迟", "改期"],
    },
    Words {
        label: "leisure",
        english: &[
            "movie", "film", "music", "concert", "game", "games", "book", "books", "hobby", "football",
            "tennis", "running", "gym", "hiking", "piano", "guitar",
        ],
        chinese: &[
            "电影",
            "音乐",
            "演唱会",
            "游戏",
            "看书",
            "爱好",
            "足球",
            "网球",
            "跑步",
            "健身",
            "爬山",
            "钢琴",
            "吉他",
        ],
    },
    Words {
        label: "technology",
        english: &[
            "computer", "laptop", "phone", "software", "app", "code", "bug", "server", "database",
            "internet", "password", "error",
        ],
        chinese: &["电脑", "手机", "软件", "程序", "代码", "服务器", "数据库", "网络", "密码", "报错"],
    },
];

const GREET: Words = Words {
    label: "greet",
    english: &["hi", "hello", "hey", "good morning", "good evening", "bye", "goodbye"],
    chinese: &["你好", "您好", "早上好", "晚上好", "再见", "嗨"],
};
const THANK: Words = Words {
    label: "thank",
    english: &["thanks", "thank you", "thx", "cheers"],
    chinese: &["谢谢", "多谢", "感谢"],
};
const CONFIRM: Words = Words {
    label: "confirm",
    english: &["yes", "yeah", "yep", "ok", "okay", "sure", "right", "correct", "exactly", "sounds good"],
    chinese: &["好的", "是的", "对", "没错", "可以", "行", "嗯", "好", "确认"],
};
const DENY: Words = Words {
    label: "deny",
    english: &["no", "nope", "not really", "wrong", "never mind", "cancel"],
    chinese: &["不是", "不对", "不用", "不要", "算了", "取消", "不行"],
};
const REQUEST: Words = Words {
    label: "request",
    english: &[
        "please",
        "can you",
        "could you",
        "would you",
        "i want",
        "i need",
        "i'd like",
        "help me",
        "book",
        "remind",
        "tell me",
        "show me",
        "find",
    ],
    chinese: &["请", "帮我", "麻烦", "我想", "我要", "能不能", "可不可以", "给我", "提醒我"],
};
const QUESTION: Words = Words {
    label: "ask",
    english: &["what", "who", "where", "when", "why", "how", "which", "whose"],
    chinese: &["吗", "呢？", "什么", "谁", "哪", "怎么", "为什么", "多少", "几点", "是不是"],
};

impl Words {
    fn begin(&self, text: &str) -> bool {
        let english = |word: &&str| {
            text.strip_prefix(*word)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '\''))
        };
        self.english.iter().any(english) || self.chinese.iter().any(|word| text.starts_with(word))
    }

    fn within(&self, text: &str, words: &[&str]) -> bool {
        let english = |word: &&str| match word.contains(' ') {
            true => text.contains(*word),
            false => words.contains(word),
        };
        self.english.iter().any(english) || self.chinese.iter().any(|word| text.contains(word))
    }
}

/// The labels of a text. A long one is looked at up to a bound.
pub fn labels(text: &str) -> Labels {
    let text = beginning(text);
    let normal = normalize(text).to_lowercase();
    let words: Vec<&str> =
        normal.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return Labels { importance: SMALL_TALK, ..Labels::default() };
    }
    let mut topics: Vec<&'static str> =
        TOPICS.iter().filter(|topic| topic.within(&normal, &words)).map(|topic| topic.label).collect();
    topics.truncate(LABELS_MAX);
    let mut entities: Vec<String> = names(text).into_iter().map(str::to_owned).collect();
    entities
        .retain(|entity| entity.len() <= crate::limits::ID_BYTES_MAX && !entity.contains(char::is_control));
    entities.truncate(LABELS_MAX);
    let last = sentences(text).last().map_or("", |sentence| sentence.trim_end_matches(['"', '”', '）', ')']));
    let marked = last.ends_with(['?', '？']);
    let asks = marked || last.ends_with(['吗', '呢']);
    let act = act(&normal, &words, asks);
    let small = matches!(act, "greet" | "thank" | "confirm" | "deny")
        && words.len() <= 4
        && normal.chars().count() <= 24;
    let importance = match () {
        () if small => SMALL_TALK,
        () if !protected(text).is_empty() => WITH_TERMS,
        () => PLAIN,
    };
    Labels { act: Some(act), topics, entities, asks, importance }
}

/// What a text does: by its end, then by its beginning, then by what is in it.
fn act(normal: &str, words: &[&str], asks: bool) -> &'static str {
    let polite = ["can you", "could you", "would you"].iter().any(|start| normal.starts_with(start))
        || ["能不能", "可不可以"].iter().any(|part| normal.contains(part));
    if !polite && (asks || QUESTION.begin(normal)) {
        return QUESTION.label;
    }
    for kind in [&GREET, &THANK, &DENY, &CONFIRM] {
        if kind.begin(normal) && normal.chars().count() <= 24 {
            return kind.label;
        }
    }
    if polite || REQUEST.within(normal, words) {
        return REQUEST.label;
    }
    "inform"
}

fn beginning(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_in_both_languages() {
        for (act, english, chinese) in [
            ("ask", "Where do I live?", "我住在哪里？"),
            ("ask", "What is the price", "这个多少钱呢"),
            ("request", "Could you book a table for two?", "能不能帮我订一张桌子？"),
            ("request", "Please remind me tomorrow", "请明天提醒我"),
            ("confirm", "Yes, exactly", "好的，没错"),
            ("deny", "No, cancel it", "不用了，取消"),
            ("greet", "Hello there", "你好"),
            ("thank", "Thanks a lot!", "谢谢你"),
            ("inform", "I live in Berlin", "我住在北京"),
        ] {
            assert_eq!(labels(english).act, Some(act), "{english}");
            assert_eq!(labels(chinese).act, Some(act), "{chinese}");
        }
        for text in ["", " ", "🙂", "…"] {
            assert_eq!(labels(text).act, None, "{text:?}");
        }
    }

    #[test]
    fn topics_and_names_in_both_languages() {
        let english = labels("My wife needs 20 mg of the medicine on the flight to Paris.");
        assert_eq!(english.topics, ["health", "travel", "family"]);
        assert_eq!(english.entities, ["Paris"]);
        let chinese = labels("我老婆坐飞机前要吃20毫克的药，小明知道。");
        assert_eq!(chinese.topics, ["food", "health", "travel", "family"]);
        assert_eq!(chinese.entities, ["小明"]);
    }

    #[test]
    fn importance_follows_what_is_in_it() {
        for (text, importance) in [
            ("ok", SMALL_TALK),
            ("谢谢！", SMALL_TALK),
            ("🙂", SMALL_TALK),
            ("that was a nice film", PLAIN),
            ("天气真好", PLAIN),
            ("the order CN-A10293 costs 30 euros", WITH_TERMS),
            ("花了三百块钱", WITH_TERMS),
        ] {
            assert!((labels(text).importance - importance).abs() < f32::EPSILON, "{text}");
        }
    }

    #[test]
    fn long_texts_are_bounded() {
        let long = "吃🙂".repeat(100_000);
        assert_eq!(labels(&long).topics, ["food"]);
    }
}
