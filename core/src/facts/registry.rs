//! Which predicates hold one object at a time, which hold many, and by which words they go.
//!
//! A predicate that stands nowhere here is of unknown cardinality: nothing is retired for its sake.
//! The table knows the ordinary relations of a person's life in English and Chinese; a caller
//! declares others (`cardinality` of a fact), a tenant by an [`Extension`].

use super::normal;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Version of the tables and rules; it goes with every statement they make.
pub const RULES_VERSION: u16 = 3;

/// How many objects one subject can have at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// One: a new object takes the place of the old one.
    One,
    /// Many: each object is a matter of its own.
    Many,
    /// Not known.
    Unknown,
    /// An attitude to the object: each object is a matter of its own, and the predicate is what is
    /// said of it, so that `hates` takes the place of `likes`.
    Attitude,
}

impl Arity {
    /// Finds an arity by its wire name.
    pub fn from_wire(name: &str) -> Option<Self> {
        match name {
            "single" => Some(Self::One),
            "many" => Some(Self::Many),
            "unknown" => Some(Self::Unknown),
            _ => None,
        }
    }
}

/// A predicate by the name that it is compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predicate {
    /// The name that all aliases share.
    pub name: String,
    /// How many objects it holds.
    pub arity: Arity,
    /// Whether it says that something does not hold.
    pub negated: bool,
}

/// Name, arity, other names. All in the form of [`normal::predicate`].
type Entry = (&'static str, Arity, &'static [&'static str]);

#[rustfmt::skip]
const TABLE: &[Entry] = &[
    // Where and who one is.
    ("lives in", Arity::One, &[
        "live in", "living in", "lives at", "live at", "resides in", "reside in", "residence", "home", "home city",
        "current city", "hometown now", "is based in", "based in", "location", "city", "moved to", "moves to",
        "relocated to", "住在", "居住在", "居住地", "住址", "现居", "现居地", "定居在", "搬到", "搬到了", "搬去",
        "搬去了", "搬家到", "所在城市",
    ]),
    ("address", Arity::One, &["home address", "street address", "地址", "家庭住址"]),
    ("name", Arity::One, &["is called", "is named", "full name", "called", "名字", "姓名", "叫", "名叫", "叫做"]),
    ("nickname", Arity::Many, &["小名", "外号", "绰号"]),
    ("age", Arity::One, &["is aged", "years old", "年龄", "岁数"]),
    ("birthday", Arity::One, &[
        "born on", "was born on", "date of birth", "birth date", "birthdate", "生日", "出生日期", "出生于日期",
        "生于日期",
    ]),
    ("born in", Arity::One, &[
        "was born in", "place of birth", "birthplace", "hometown", "comes from", "is from", "出生地", "出生在",
        "出生于", "家乡", "老家", "来自",
    ]),
    ("died in", Arity::One, &["place of death", "died at", "死于", "逝世于"]),
    ("died on", Arity::One, &["date of death"]),
    ("gender", Arity::One, &["sex", "性别"]),
    ("nationality", Arity::One, &["国籍"]),
    ("religion", Arity::One, &["宗教信仰", "信仰"]),
    ("phone", Arity::One, &[
        "phone number", "telephone", "mobile", "mobile number", "电话", "电话号码", "手机号", "手机号码",
    ]),
    ("email", Arity::One, &["email address", "e mail", "mail", "邮箱", "电子邮箱", "电子邮件"]),
    ("timezone", Arity::One, &["time zone", "时区"]),
    ("native language", Arity::One, &["mother tongue", "first language", "母语"]),
    ("height", Arity::One, &["is tall", "身高"]),
    ("weight", Arity::One, &["体重"]),
    ("blood type", Arity::One, &["血型"]),
    ("shoe size", Arity::One, &["鞋码"]),
    ("zodiac sign", Arity::One, &["star sign", "星座", "属相", "生肖"]),
    // Work and school.
    ("works at", Arity::One, &[
        "work at", "works for", "work for", "working at", "working for", "employer", "is employed by",
        "employed by", "company", "joined", "works in company", "工作单位", "在职公司", "就职于", "任职于",
        "供职于", "公司", "雇主", "入职", "入职了", "跳槽到", "跳槽到了", "跳槽去",
    ]),
    ("job", Arity::One, &[
        "works as", "work as", "working as", "occupation", "profession", "job title", "position", "role",
        "is employed as", "职业", "工作", "职位", "职务",
    ]),
    ("studies at", Arity::One, &["study at", "school", "university", "就读于", "在读学校", "学校"]),
    ("major", Arity::One, &["studies", "field of study", "专业", "主修"]),
    // People.
    ("married to", Arity::One, &[
        "is married to", "spouse", "husband", "wife", "partner", "配偶", "丈夫", "妻子", "老公", "老婆", "爱人",
        "伴侣",
    ]),
    ("engaged to", Arity::One, &["fiance", "fiancee", "fiancé", "fiancée", "未婚夫", "未婚妻"]),
    ("dating", Arity::One, &["is dating", "boyfriend", "girlfriend", "男朋友", "女朋友", "男友", "女友"]),
    ("marital status", Arity::One, &["relationship status", "婚姻状况", "感情状况"]),
    ("mother", Arity::One, &["mom", "mum", "妈妈", "母亲"]),
    ("father", Arity::One, &["dad", "爸爸", "父亲"]),
    ("boss", Arity::One, &["manager", "supervisor", "老板", "上司", "领导"]),
    ("friend of", Arity::Many, &["friend", "friends with", "is friends with", "朋友", "好友"]),
    ("sibling", Arity::Many, &["brother", "sister", "哥哥", "弟弟", "姐姐", "妹妹", "兄弟", "姐妹"]),
    ("child", Arity::Many, &["has child", "son", "daughter", "children", "孩子", "儿子", "女儿"]),
    ("colleague", Arity::Many, &["coworker", "同事"]),
    ("knows", Arity::Many, &["met", "认识"]),
    // What one has, can and does.
    ("pet", Arity::Many, &["has pet", "pets", "宠物"]),
    ("has", Arity::Many, &["owns", "own", "have", "has got", "有", "拥有", "养了", "养", "养着"]),
    ("speaks", Arity::Many, &["speak", "languages", "language", "会说", "会讲"]),
    ("can", Arity::Many, &["knows how to", "is able to", "skill", "skills", "会", "擅长"]),
    ("plays", Arity::Many, &["play", "玩", "打"]),
    ("visited", Arity::Many, &["been to", "travelled to", "traveled to", "去过", "到过"]),
    ("hobby", Arity::Many, &[
        "hobbies", "interest", "interests", "interested in", "is interested in", "爱好", "兴趣", "兴趣爱好",
    ]),
    ("goal", Arity::Many, &["goals", "目标"]),
    // Food, health, habits.
    ("diet", Arity::One, &["eating habit", "饮食", "饮食习惯"]),
    ("allergic to", Arity::Many, &[
        "is allergic to", "allergy", "allergies", "has allergy", "过敏原", "过敏", "对过敏",
    ]),
    ("intolerant to", Arity::Many, &["is intolerant to", "intolerance", "不耐受"]),
    ("eats", Arity::Many, &["eat", "吃"]),
    ("drinks", Arity::Many, &["drink", "喝"]),
    ("smoking", Arity::One, &["smoking status", "吸烟", "抽烟"]),
    ("medication", Arity::Many, &["takes medication", "takes", "服用", "用药"]),
    ("tolerates", Arity::Many, &["tolerate", "can take", "耐受"]),
    ("illness", Arity::Many, &["has condition", "condition", "diagnosis", "疾病", "患有"]),
    ("wake up time", Arity::One, &["gets up at", "wakes up at", "起床时间"]),
    ("bedtime", Arity::One, &["goes to bed at", "睡觉时间"]),
    ("budget", Arity::One, &["预算"]),
    ("preferred language", Arity::One, &["preferred reply language", "回复语言", "首选语言"]),
    // Things and organisations of which there is one at a time.
    ("capital", Arity::One, &["capital city", "首都", "省会"]),
    ("headquarters", Arity::One, &[
        "headquarter", "headquartered in", "is headquartered in", "head office", "总部", "总部位于",
    ]),
    ("ceo", Arity::One, &["chief executive officer", "chief executive", "首席执行官", "总裁"]),
    ("president", Arity::One, &["总统", "主席"]),
    ("prime minister", Arity::One, &["总理", "首相"]),
    ("mayor", Arity::One, &["市长"]),
    ("price", Arity::One, &["costs", "价格", "售价"]),
    ("status", Arity::One, &["state", "状态"]),
    ("deadline", Arity::One, &["due date", "is due on", "截止日期", "截止时间"]),
    ("version", Arity::One, &["版本", "版本号"]),
    ("owner", Arity::One, &["is owned by", "owned by", "负责人", "所有者"]),
    // Attitudes: what is said of an object takes the place of what was said of it.
    ("loves", Arity::Attitude, &[
        "love", "adores", "adore", "is crazy about", "最爱", "爱", "热爱", "很喜欢", "超喜欢", "特别喜欢",
        "非常喜欢",
    ]),
    ("likes", Arity::Attitude, &[
        "like", "enjoys", "enjoy", "is fond of", "is into", "喜欢", "喜爱", "爱吃", "爱喝", "喜欢吃", "喜欢喝",
        "prefers", "prefer", "更喜欢", "偏爱",
    ]),
    ("dislikes", Arity::Attitude, &[
        "dislike", "is not fond of", "isn't into", "不喜欢", "不爱", "不太喜欢", "讨厌吃",
    ]),
    ("hates", Arity::Attitude, &[
        "hate", "detests", "detest", "can't stand", "cannot stand", "loathes", "loathe", "讨厌", "恨", "厌恶",
        "受不了",
    ]),
];

/// The table by every name in it.
static BY_NAME: LazyLock<BTreeMap<&str, (&str, Arity)>> = LazyLock::new(|| {
    let of = |(name, arity, aliases): &'static Entry| {
        aliases.iter().chain([name]).map(|alias| (*alias, (*name, *arity)))
    };
    TABLE.iter().flat_map(of).collect()
});

/// What attitudes are filed under.
const ATTITUDE: &str = "attitude to";

/// Heads of predicates of which there is one whatever follows: a favourite colour, a favourite film.
const ONE_OF_A_KIND: [&str; 5] = ["favorite ", "favourite ", "preferred ", "最喜欢的", "最爱的"];

/// Words in front of a predicate that turn it into its opposite.
const NEGATIONS: [&str; 13] = [
    "no longer ",
    "does not ",
    "doesn't ",
    "do not ",
    "don't ",
    "did not ",
    "is not ",
    "isn't ",
    "not ",
    "never ",
    "不再",
    "不",
    "没有",
];

/// What a tenant adds to the table, or changes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extension {
    by_name: BTreeMap<String, (String, Arity)>,
}

/// Most names that one extension has.
pub const EXTENSION_NAMES_MAX: usize = 1024;

impl Extension {
    /// Adds a predicate under its name and aliases. `false` if there is no room for them.
    #[must_use]
    pub fn add(&mut self, name: &str, arity: Arity, aliases: &[&str]) -> bool {
        if self.by_name.len() + aliases.len() >= EXTENSION_NAMES_MAX {
            return false;
        }
        let name = normal::predicate(name);
        for alias in aliases.iter().map(|alias| normal::predicate(alias)).chain([name.clone()]) {
            self.by_name.insert(alias, (name.clone(), arity));
        }
        true
    }
}

/// The built-in table with what a tenant adds to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registry {
    extension: Extension,
}

impl Registry {
    /// The table and an extension, which goes first.
    pub fn new(extension: Extension) -> Self {
        Self { extension }
    }

    /// Finds a predicate by any of its names. One that is not known comes back in its normal form.
    pub fn find(&self, predicate: &str) -> Predicate {
        let plain = normal::predicate(predicate);
        if let Some((name, arity)) = self.known(&plain) {
            return Predicate { name, arity, negated: false };
        }
        let bare = NEGATIONS.iter().find_map(|negation| plain.strip_prefix(negation));
        if let Some(bare) = bare.map(str::trim).filter(|bare| !bare.is_empty()) {
            let (name, arity) = self.known(bare).unwrap_or_else(|| (bare.to_owned(), Arity::Unknown));
            return Predicate { name, arity, negated: true };
        }
        Predicate { name: plain, arity: Arity::Unknown, negated: false }
    }

    /// The predicate that facts are filed under which are stated by this one.
    pub fn filed_under(&self, predicate: &str) -> String {
        file(self.find(predicate), String::new()).0
    }

    fn known(&self, plain: &str) -> Option<(String, Arity)> {
        let by_name = &self.extension.by_name;
        let bare = ["is ", "are ", "was ", "has "].iter().find_map(|verb| plain.strip_prefix(verb));
        for plain in [Some(plain), bare].into_iter().flatten() {
            if let Some((name, arity)) = by_name.get(plain) {
                return Some((name.clone(), *arity));
            }
            if let Some((name, arity)) = BY_NAME.get(plain) {
                return Some(((*name).to_owned(), *arity));
            }
        }
        ONE_OF_A_KIND.iter().any(|head| plain.starts_with(head)).then(|| {
            let british = plain.replace("favourite ", "favorite ");
            (british, Arity::One)
        })
    }
}

/// What facts of an arity are filed under: predicate, what narrows it, value.
pub(super) fn file(predicate: Predicate, object: String) -> (String, String, String) {
    match predicate.arity {
        Arity::One | Arity::Unknown => (predicate.name, String::new(), object),
        Arity::Many => {
            let value = if predicate.negated { "no" } else { "yes" };
            (predicate.name, object, value.to_owned())
        }
        Arity::Attitude => {
            let value = if predicate.negated { opposite(&predicate.name).to_owned() } else { predicate.name };
            (ATTITUDE.to_owned(), object, value)
        }
    }
}

fn opposite(attitude: &str) -> &'static str {
    match attitude {
        "hates" | "dislikes" => "does not mind",
        _ => "dislikes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_stands_once_and_in_its_normal_form() {
        let mut seen = BTreeSet::new();
        for (name, _, aliases) in TABLE {
            for name in aliases.iter().chain([name]) {
                assert_eq!(normal::predicate(name), *name);
                assert!(seen.insert(*name), "{name} stands twice");
            }
        }
    }

    #[test]
    fn names_lead_to_one_predicate() {
        let registry = Registry::default();
        for alias in ["Lives_In", "lives in", "住在", "moved to", "residence", "is living in"] {
            let found = registry.find(alias);
            assert_eq!(
                (found.name.as_str(), found.arity, found.negated),
                ("lives in", Arity::One, false),
                "{alias}"
            );
        }
        assert_eq!(registry.find("favourite colour").arity, Arity::One);
        assert_eq!(registry.find("favourite colour"), registry.find("favorite colour"));
        assert_eq!(registry.find("likes").arity, Arity::Attitude);
        assert_eq!(registry.find("orbits").arity, Arity::Unknown);
    }

    #[test]
    fn negations_are_found() {
        let registry = Registry::default();
        let found = registry.find("no longer works at");
        assert_eq!((found.name.as_str(), found.negated), ("works at", true));
        assert!(registry.find("不再喝").negated);
        assert_eq!(registry.find("不喜欢").name, "dislikes");
        assert!(!registry.find("notes").negated);
    }

    #[test]
    fn a_tenant_adds_and_changes() {
        let mut extension = Extension::default();
        assert!(extension.add("Badge Number", Arity::One, &["工牌号"]));
        assert!(extension.add("lives in", Arity::Many, &[]));
        let registry = Registry::new(extension);
        assert_eq!(registry.find("工牌号").name, "badge number");
        assert_eq!(registry.find("badge_number").arity, Arity::One);
        assert_eq!(registry.find("lives in").arity, Arity::Many);
        let names: Vec<String> = (0..EXTENSION_NAMES_MAX + 8).map(|n| format!("p{n}")).collect();
        let mut full = Extension::default();
        assert!(!names.iter().all(|name| full.add(name, Arity::One, &[])));
    }
}
