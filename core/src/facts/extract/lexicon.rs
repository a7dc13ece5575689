//! Closed lists of ordinary words that rules lean on. Content words stand here only where a rule
//! needs to know what sort of thing is meant: diets and what they exclude, tastes, occupations.

use super::tokens::Token;

/// Words and phrases that may stand between subject and verb without changing what is said.
#[rustfmt::skip]
const ADVERBS: &[&str] = &[
    "now", "currently", "just", "recently", "really", "absolutely", "actually", "still", "always", "usually",
    "also", "definitely", "totally", "truly", "already", "finally", "mostly", "generally", "have", "has", "'ve",
    "normally", "officially", "both", "so", "very", "quite", "pretty", "simply", "honestly", "mainly", "only",
    "these days", "nowadays", "at the moment", "do", "does", "even", "permanently", "现在", "目前", "已经", "刚刚",
    "刚", "一直", "都", "还", "也", "最近", "以后", "从现在起", "今后", "就", "真的", "其实", "非常", "特别", "很",
    "超", "超级", "最", "挺", "比较", "更", "好", "平时", "通常", "一般", "经常", "总是", "今天", "今晚", "这几天",
    "如今", "正在", "开始", "终于", "正式", "会", "可", "又", "再次", "重新",
];

/// Words at either end of a clause that say nothing of what it states. Their meaning as cues is taken
/// from the whole sentence.
#[rustfmt::skip]
const LEADING: &[&str] = &[
    "now", "currently", "actually", "well", "so", "oh", "ok", "okay", "yes", "yeah", "no", "hey", "hi", "hello",
    "btw", "by the way", "just so you know", "for your information", "fyi", "these days", "nowadays", "lately",
    "recently", "from now on", "as of today", "as of now", "as of this week", "as of this month", "today",
    "tonight", "this week", "this evening", "for now", "just today", "just for today", "just this once",
    "only today", "yesterday", "last night", "last week", "last month", "last year", "this morning", "this year",
    "this month", "and", "but", "also", "then", "i think", "i mean", "to be honest", "honestly",
    "please remember that", "please remember", "remember that", "please note that", "note that", "please note",
    "remember", "you should know that", "i want you to know that", "since last year", "at the moment", "anyway",
    "sorry", "i meant", "i meant that", "i was wrong", "my mistake", "correction", "update", "unfortunately", "fortunately", "luckily", "sadly",
    "finally", "in fact", "现在", "目前", "其实", "对了", "嗯", "哦", "啊", "你好", "您好", "顺便说一下", "顺便",
    "最近", "这几天", "从现在起", "从今以后", "以后", "今后", "今天", "今晚", "昨天", "昨晚", "上周", "上个月",
    "去年", "今年", "这周", "这个月", "说实话", "老实说", "请记住", "记住", "请注意", "不对", "不是", "我是说",
    "更正一下", "更正", "我说错了", "说错了", "我搞错了", "另外", "还有", "而且", "但是", "但", "不过", "可是", "所以", "然后", "那个", "如今",
    "好的", "好吧", "告诉你", "跟你说", "就今天", "只有今天", "只是今天",
];

#[rustfmt::skip]
const TRAILING: &[&str] = &[
    "now", "right now", "currently", "these days", "nowadays", "lately", "at the moment", "anymore", "any more",
    "any longer", "today", "tonight", "this week", "this evening", "for now", "for today", "just today",
    "just for today", "just this once", "only today", "yesterday", "last night", "last week", "last month",
    "last year", "this morning", "this year", "this month", "as well", "too", "a lot", "very much", "so much",
    "again", "permanently", "from now on", "recently", "already", "ago", "though", "actually", "instead", "at all",
    "as of today", "for dinner", "for lunch", "for breakfast", "with friends", "the other day", "please",
    "by the way", "with my family", "every day", "every morning", "了", "啦", "呢", "的", "啊", "呀", "哦", "吧",
    "现在", "今天", "今晚", "为止", "来着", "一下", "嘛", "哈", "咯",
];

/// A noun phrase with one of these stands for something said elsewhere, or for nobody in particular.
#[rustfmt::skip]
const UNRESOLVED: &[&str] = &[
    "it", "its", "her", "his", "their", "this", "that", "there", "he", "she", "they", "him", "them", "you", "who",
    "what", "which", "where", "when", "why", "how", "if", "whether", "everyone", "everybody", "people", "someone",
    "somebody", "nobody", "anyone", "one", "these", "those", "here", "your", "something", "nothing", "everything",
    "anything", "because", "他", "她", "它", "你", "您", "这", "那", "谁", "哪", "某", "啥",
];

/// What an object may not consist of alone.
#[rustfmt::skip]
const EMPTY_OBJECTS: &[&str] = &[
    "so", "to", "not", "me", "i", "us", "we", "a", "an", "the", "of", "and", "or", "too", "now", "的", "了", "吗",
    "么", "是", "不",
];

/// A clause with one of these does not say that something is so.
#[rustfmt::skip]
const NOT_STATED: &[&str] = &[
    "if", "would", "could", "might", "maybe", "perhaps", "wish", "wishes", "unless", "hypothetically", "suppose",
    "pretend", "will", "'ll", "'d", "should", "going", "plan", "plans", "planning", "hope", "hopes", "said", "says",
    "told", "asked", "thinks", "heard", "dreamed", "dreamt", "imagine", "joking", "almost", "nearly", "?", "used",
    "thinking", "considering", "whether",
];
#[rustfmt::skip]
const NOT_STATED_CJK: &[&str] = &[
    "如果", "要是", "假如", "可能", "也许", "大概", "或许", "希望", "但愿", "打算", "准备", "计划", "考虑", "听说",
    "据说", "他说", "她说", "觉得", "好像", "似乎", "差点", "几乎", "开玩笑", "假装", "想象", "将要", "以前",
    "曾经", "过去", "？", "吗", "是不是", "有没有", "哪里", "什么", "怎么", "谁",
];

/// Forms of a diet: what is said, and the value that it is compared by.
#[rustfmt::skip]
const DIETS: &[(&str, &str)] = &[
    ("vegetarian", "vegetarian"), ("veggie", "vegetarian"), ("vegan", "vegan"), ("pescatarian", "pescatarian"),
    ("pescetarian", "pescatarian"), ("flexitarian", "flexitarian"), ("omnivore", "omnivore"),
    ("meat eater", "omnivore"), ("meat-eater", "omnivore"), ("素食者", "vegetarian"), ("素食主义者", "vegetarian"),
    ("素食", "vegetarian"), ("吃素的", "vegetarian"), ("吃素", "vegetarian"), ("纯素食者", "vegan"),
    ("纯素主义者", "vegan"), ("纯素食主义者", "vegan"), ("全素", "vegan"), ("鱼素者", "pescatarian"),
    ("杂食者", "omnivore"), ("吃荤的", "omnivore"), ("吃荤", "omnivore"),
];

#[rustfmt::skip]
const MEAT: &[&str] = &[
    "steak", "steaks", "beef", "pork", "lamb", "mutton", "chicken", "turkey", "duck", "bacon", "ham", "sausage",
    "sausages", "meat", "burger", "hamburger", "cheeseburger", "ribs", "veal", "venison", "meatballs", "meatball",
    "schnitzel", "kebab", "salami", "prosciutto", "pepperoni", "brisket", "goose", "bratwurst", "牛排", "牛肉",
    "猪肉", "羊肉", "鸡肉", "鸭肉", "烤鸭", "培根", "火腿", "香肠", "肉", "排骨", "炸鸡", "烤肉", "红烧肉", "汉堡",
    "羊肉串", "鸡翅", "猪排", "烤鸡", "鹅肉", "肥牛",
];
#[rustfmt::skip]
const FISH: &[&str] = &[
    "fish", "salmon", "tuna", "cod", "shrimp", "shrimps", "prawns", "lobster", "crab", "sushi", "sashimi",
    "oysters", "squid", "鱼", "三文鱼", "金枪鱼", "虾", "龙虾", "螃蟹", "寿司", "生鱼片", "烤鱼", "海鲜",
];
#[rustfmt::skip]
const DAIRY_EGGS: &[&str] = &[
    "milk", "cheese", "butter", "yogurt", "yoghurt", "cream", "egg", "eggs", "omelette", "omelet", "honey", "牛奶",
    "奶酪", "芝士", "黄油", "酸奶", "奶油", "鸡蛋", "煎蛋", "蜂蜜",
];

/// Tastes: a dish that is called by one is of it, whatever its degree.
#[rustfmt::skip]
const TASTES: &[(&str, &str)] = &[
    ("spicy", "spicy"), ("hot and spicy", "spicy"), ("辣", "spicy"), ("麻辣", "spicy"), ("微辣", "spicy"),
    ("香辣", "spicy"), ("sweet", "sweet"), ("sweets", "sweet"), ("甜", "sweet"), ("sour", "sour"), ("酸", "sour"),
    ("salty", "salty"), ("咸", "salty"), ("greasy", "greasy"), ("oily", "greasy"), ("油腻", "greasy"),
    ("bitter", "bitter"), ("苦", "bitter"), ("raw", "raw"), ("生冷", "raw"),
];

#[rustfmt::skip]
const OCCUPATIONS: &[&str] = &[
    "accountant", "actor", "actress", "analyst", "architect", "artist", "baker", "banker", "barista", "biologist",
    "carpenter", "chef", "chemist", "consultant", "cook", "dentist", "designer", "developer", "director", "doctor",
    "driver", "economist", "editor", "electrician", "engineer", "farmer", "firefighter", "freelancer",
    "hairdresser", "historian", "journalist", "judge", "lawyer", "lecturer", "librarian", "manager",
    "mathematician", "mechanic", "midwife", "musician", "nurse", "officer", "painter", "paramedic", "pharmacist",
    "photographer", "physicist", "pilot", "plumber", "policeman", "postman", "producer", "professor", "programmer",
    "psychologist", "receptionist", "researcher", "sailor", "salesman", "scientist", "secretary", "singer",
    "soldier", "student", "surgeon", "teacher", "technician", "therapist", "trader", "translator", "tutor", "vet",
    "veterinarian", "waiter", "waitress", "writer", "nutritionist", "psychiatrist", "physiotherapist", "医生",
    "护士", "老师", "教师", "教授", "工程师", "程序员", "律师", "会计", "设计师", "厨师", "司机", "记者", "作家",
    "演员", "歌手", "画家", "学生", "研究生", "大学生", "公务员", "警察", "军人", "销售", "经理", "产品经理",
    "科学家", "研究员", "翻译", "摄影师", "农民", "工人", "飞行员", "药剂师", "咨询师", "分析师", "编辑", "导演",
    "建筑师", "法官", "店员", "服务员", "数据分析师",
];

#[rustfmt::skip]
const THINGS: &[&str] = &[
    "dog", "dogs", "cat", "cats", "puppy", "kitten", "hamster", "rabbit", "parrot", "fish", "horse", "son", "sons",
    "daughter", "daughters", "brother", "brothers", "sister", "sisters", "child", "children", "kid", "kids", "twin",
    "twins", "car", "bike", "bicycle", "motorcycle", "house", "apartment", "flat", "piano", "guitar", "garden",
    "boat", "husband", "wife", "girlfriend", "boyfriend", "tesla", "laptop", "iphone", "狗", "猫", "兔子", "仓鼠",
    "鹦鹉", "儿子", "女儿", "哥哥", "弟弟", "姐姐", "妹妹", "孩子", "车", "房子", "钢琴", "吉他", "男朋友",
    "女朋友", "双胞胎", "宠物", "金毛", "柯基", "小狗", "小猫",
];

/// Nouns of persons and things: what they *are* is said of them, and is not their name.
#[rustfmt::skip]
const NOT_ATTRIBUTES: &[&str] = &[
    "wife", "husband", "partner", "boss", "manager", "mother", "father", "mom", "mum", "dad", "brother", "sister",
    "son", "daughter", "child", "children", "kid", "kids", "friend", "friends", "colleague", "neighbour",
    "neighbor", "roommate", "girlfriend", "boyfriend", "fiance", "fiancee", "uncle", "aunt", "cousin",
    "grandmother", "grandfather", "phone", "car", "house", "home", "flat", "apartment", "room", "dog", "cat",
    "computer", "laptop", "bike", "team", "company", "school", "city", "office", "family", "parents", "life", "day",
    "week", "head", "back", "knee", "stomach", "mail", "email", "mobile", "telephone", "position", "address",
    "doctor", "teacher", "老婆", "老公", "妻子", "丈夫", "爸爸", "妈妈", "父亲", "母亲", "儿子", "女儿", "哥哥",
    "姐姐", "弟弟", "妹妹", "朋友", "同事", "老板", "男朋友", "女朋友", "手机", "电话", "车", "房子", "家", "公司",
    "学校", "城市", "电脑", "狗", "猫", "老师", "室友", "邻居",
];

/// What is no name of a place or an organisation.
#[rustfmt::skip]
const NOT_PLACES: &[&str] = &[
    "a", "an", "my", "our", "one", "two", "home", "night", "nights", "weekends", "fear", "peace", "bed", "work",
    "school", "myself", "same", "another", "new", "different", "monday", "tuesday", "wednesday", "thursday",
    "friday", "saturday", "sunday", "tomorrow", "least", "first", "front", "town", "office", "downtown", "abroad",
];
#[rustfmt::skip]
const NOT_PLACES_CJK: &[&str] = &[
    "的", "附近", "楼", "公寓", "宿舍", "家里", "酒店", "一家", "一个", "旁边", "这", "那", "隔壁", "后面", "前面",
];

/// What may begin a Chinese subject besides a name, and who is meant without a name.
#[rustfmt::skip]
pub(super) const KIN: &[&str] = &[
    "爸爸", "妈妈", "爸", "妈", "父亲", "母亲", "哥哥", "姐姐", "弟弟", "妹妹", "哥", "姐", "弟", "妹", "老公",
    "老婆", "丈夫", "妻子", "儿子", "女儿", "男朋友", "女朋友", "男友", "女友", "爷爷", "奶奶", "外公", "外婆",
    "同事", "同学", "室友", "朋友", "老板", "老师", "邻居", "表哥", "表姐", "表弟", "表妹",
];

/// Characters that do not stand in a Chinese name or noun that is a subject.
const NOT_IN_SUBJECT: &str = "今昨刚就也都很想要会在不没是有说觉去到和把被给让对又再从已吃喝住爱讨";

pub(super) fn is_any(list: &[&str], text: &str) -> bool {
    list.contains(&text)
}

/// The text of some tokens, words by single spaces, CJK without.
pub(super) fn joined(tokens: &[Token]) -> String {
    let mut text = String::new();
    for (at, token) in tokens.iter().enumerate() {
        let gap = at > 0 && tokens[at - 1].end != token.start;
        if gap {
            text.push(' ');
        }
        text.push_str(&token.low);
    }
    text
}

/// How many tokens the longest phrase of a list takes at the front.
fn phrase_at(list: &[&str], tokens: &[Token]) -> Option<usize> {
    const PHRASE_TOKENS_MAX: usize = 7;
    (1..=tokens.len().min(PHRASE_TOKENS_MAX)).rev().find(|n| is_any(list, &joined(&tokens[..*n])))
}

/// How many tokens the adverb at the front takes.
pub(super) fn adverb_at(tokens: &[Token]) -> Option<usize> {
    phrase_at(ADVERBS, tokens)
}

/// How many tokens at the front only lead in.
pub(super) fn leading_at(tokens: &[Token]) -> Option<usize> {
    phrase_at(LEADING, tokens).filter(|_| !tokens.first().is_some_and(|first| first.titled))
}

/// How many tokens at the end only close.
pub(super) fn trailing_at(tokens: &[Token]) -> Option<usize> {
    const PHRASE_TOKENS_MAX: usize = 5;
    let n = tokens.len();
    let closes = |k: &usize| {
        let end = &tokens[n - k..];
        !end.iter().any(|token| token.titled) && is_any(TRAILING, &joined(end))
    };
    (1..=n.min(PHRASE_TOKENS_MAX)).rev().find(closes)
}

/// When something happened, as Chinese says it behind the subject too: 我昨天吃了牛排.
#[rustfmt::skip]
const TIMES_CJK: &[&str] = &[
    "昨天", "昨天早上", "昨天上午", "昨天中午", "昨天下午", "昨天晚上", "昨晚", "昨日", "前天", "前天晚上", "前晚", "前几天", "上周", "上周末", "上星期", "上个星期", "上个周末",
    "上个月", "去年", "今年", "这周", "这个月", "刚才", "今早", "今天早上", "今天中午", "今天下午", "今天晚上",
];
/// Times that are over. Chinese verbs do not tell.
#[rustfmt::skip]
const PAST: &[&str] = &[
    "昨", "前天", "前晚", "前几天", "上周", "上星期", "上个", "去年", "刚才",
];

/// The clause without a time behind its subject, which says there what it says in front of it. `None` if there is
/// none.
pub(super) fn without_time(tokens: &[Token]) -> Option<Vec<Token>> {
    const SUBJECT_TOKENS_MAX: usize = 8;
    let most = tokens.len().min(SUBJECT_TOKENS_MAX + 1);
    let (at, n) = (1..most).find_map(|at| Some((at, phrase_at(TIMES_CJK, &tokens[at..])?)))?;
    let rest = &tokens[at + n..];
    (!rest.is_empty()).then(|| tokens[..at].iter().chain(rest).cloned().collect())
}

/// Whether a Chinese sentence tells of a time that is over.
pub(super) fn tells_past(tokens: &[Token]) -> bool {
    let text = joined(tokens);
    PAST.iter().any(|time| text.contains(time))
}

/// Whether a clause says that something is so, and not that it might be, was or will be.
pub(super) fn is_stated(tokens: &[Token]) -> bool {
    let text = joined(tokens);
    !tokens.iter().any(|token| !token.titled && is_any(NOT_STATED, &token.low))
        && !NOT_STATED_CJK.iter().any(|word| text.contains(word))
}

/// Whether a sentence tells what others say or write, or what is wished or dreamt.
pub(super) fn is_hearsay(tokens: &[Token]) -> bool {
    const WORDS: [&str; 16] = [
        "said",
        "says",
        "say",
        "wrote",
        "writes",
        "written",
        "according",
        "claims",
        "claimed",
        "thinks",
        "wish",
        "dream",
        "dreams",
        "suppose",
        "translate",
        "wrong",
    ];
    let text = joined(tokens);
    tokens.iter().any(|token| !token.titled && is_any(&WORDS, &token.low))
        || ["说", "写", "翻译", "梦", "假设"].iter().any(|word| text.contains(word))
}

/// Whether a sentence tells what others say or believe: not what the speaker says.
pub(super) fn is_report(tokens: &[Token]) -> bool {
    const WORDS: [&str; 9] =
        ["said", "says", "wrote", "writes", "claims", "claimed", "believes", "thinks", "kidding"];
    let text = joined(tokens);
    let own = [
        "i said",
        "as i",
        "i say",
        "我说",
        "说实话",
        "老实说",
        "说真的",
        "跟你说",
        "对你说",
        "应该说",
        "来说",
        "的说",
    ];
    let told = tokens.iter().any(|token| !token.titled && is_any(&WORDS, &token.low))
        || ["说", "以为", "怀疑"].iter().any(|word| text.contains(word));
    told && !own.iter().any(|own| text.contains(own))
}

pub(super) fn has_unresolved(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| !token.titled && is_any(UNRESOLVED, &token.low))
}

pub(super) fn is_empty_object(tokens: &[Token]) -> bool {
    tokens
        .iter()
        .all(|token| is_any(EMPTY_OBJECTS, &token.low) || token.low.chars().all(|c| !c.is_alphanumeric()))
}

pub(super) fn is_kin(text: &str) -> bool {
    KIN.iter().any(|kin| text.starts_with(kin))
}

pub(super) fn in_chinese_subject(c: char) -> bool {
    !NOT_IN_SUBJECT.contains(c)
}

/// The diet that a word names.
pub(super) fn diet(text: &str) -> Option<&'static str> {
    DIETS.iter().find(|(said, _)| *said == text).map(|(_, diet)| *diet)
}

/// The diets that eating this speaks against.
pub(super) fn diets_against(object: &[Token]) -> Vec<String> {
    let has = |list: &[&str]| {
        let text = joined(object);
        list.iter().any(|word| {
            if word.is_ascii() { object.iter().any(|token| token.low == *word) } else { text.ends_with(word) }
        })
    };
    let plant_based = ["vegan", "vegetarian", "veggie", "plant-based", "tofu", "soy", "oat", "almond", "素"];
    let text = joined(object);
    if plant_based.iter().any(|word| text.contains(word)) {
        return Vec::new();
    }
    let mut against: Vec<&str> = Vec::new();
    if has(MEAT) {
        against.extend(["vegan", "vegetarian", "pescatarian"]);
    } else if has(FISH) {
        against.extend(["vegan", "vegetarian"]);
    } else if has(DAIRY_EGGS) {
        against.push("vegan");
    }
    against.into_iter().map(str::to_owned).collect()
}

/// Whether these are meat, fish, or what animals give.
pub(super) fn is_animal(object: &[Token]) -> bool {
    let text = joined(object);
    let last = object.last().map_or("", |token| token.low.as_str());
    let named = |word: &&str| if word.is_ascii() { last == *word } else { text.ends_with(word) };
    MEAT.iter().chain(FISH).chain(DAIRY_EGGS).any(named)
}

/// Whether this is by itself the name of what [`is_animal`] knows.
pub(super) fn is_of_animals(text: &str) -> bool {
    MEAT.iter().chain(FISH).chain(DAIRY_EGGS).any(|word| *word == text)
}

/// The taste that the words for a food name, whatever else they say.
pub(super) fn taste(object: &[Token]) -> Option<&'static str> {
    let text = joined(object);
    let named = |word: &str| {
        if word.is_ascii() { object.iter().any(|token| token.low == word) } else { text.contains(word) }
    };
    TASTES.iter().find(|(word, _)| named(word)).map(|(_, taste)| *taste)
}

pub(super) fn is_occupation(object: &[Token]) -> bool {
    let text = joined(object);
    let last = object.last().map_or("", |token| token.low.as_str());
    is_any(OCCUPATIONS, last) || OCCUPATIONS.iter().any(|word| !word.is_ascii() && text.ends_with(word))
}

pub(super) fn is_thing(object: &[Token]) -> bool {
    let text = joined(object);
    object.iter().any(|token| is_any(THINGS, &token.low))
        || THINGS.iter().any(|word| !word.is_ascii() && text.contains(word))
}

/// Whether a noun stands for a person or a thing, of which more is said than its name.
pub(super) fn is_no_attribute(noun: &[Token]) -> bool {
    let text = joined(noun);
    let last = noun.last().map_or("", |token| token.low.as_str());
    is_any(NOT_ATTRIBUTES, last) || is_any(NOT_ATTRIBUTES, &text)
}

/// Whether this can be the name of a place or an organisation.
pub(super) fn is_place(object: &[Token]) -> bool {
    let text = joined(object);
    let first = object.first().map_or("", |token| token.low.as_str());
    let last = object.last().map_or("", |token| token.low.as_str());
    text != "家"
        && (!is_any(NOT_PLACES, first) || object.first().is_some_and(|token| token.capital))
        && !is_any(NOT_PLACES, last)
        && !NOT_PLACES_CJK.iter().any(|word| text.contains(word))
        && object.len() <= 10
}
