//! The lists of [`super`].

/// Names of medicines that no stem tells.
#[rustfmt::skip]
pub(super) const MEDICINES: &[&str] = &[
    "warfarin", "coumadin", "heparin", "aspirin", "paracetamol", "acetaminophen", "tylenol", "panadol", "advil", "insulin",
    "lithium", "digoxin", "morphine", "codeine", "oxycodone", "hydrocodone", "methadone", "buprenorphine", "tramadol", "fentanyl", "prednisone", "prednisolone",
    "hydrocortisone", "cortisone", "dexamethasone", "clopidogrel", "gabapentin", "pregabalin", "sertraline", "citalopram",
    "escitalopram", "venlafaxine", "duloxetine", "bupropion", "mirtazapine", "trazodone", "quetiapine", "olanzapine", "clozapine", "risperidone", "lamotrigine",
    "valproate", "carbamazepine", "phenytoin", "levetiracetam", "topiramate", "tamoxifen", "letrozole", "anastrozole", "allopurinol", "colchicine",
    "naproxen", "diclofenac", "celecoxib", "salbutamol", "albuterol", "salmeterol", "budesonide", "fluticasone", "spironolactone", "amiodarone", "nitroglycerin", "methylphenidate",
    "adderall", "ritalin", "prozac", "zoloft", "lexapro", "xanax", "valium", "ventolin", "humira", "ozempic", "wegovy", "eliquis", "xarelto",
    "plavix", "synthroid", "lipitor", "accutane", "isotretinoin", "benadryl", "zyrtec", "claritin", "lantus", "humalog", "methotrexate",
    "azathioprine", "tacrolimus", "cyclosporine", "ciclosporin", "hydroxychloroquine", "sulfasalazine", "mesalazine", "loperamide", "melatonin", "finasteride", "testosterone", "estradiol", 
    "naltrexone", "disulfiram", "ivabradine", "hydralazine", "clonidine", "metoclopramide", "ondansetron", "penicillin", "augmentin", "antibiotics", "antidepressants", "antihistamines",
    "anticoagulants", "antipsychotics", "antivirals", "anticonvulsants", "antimalarials", "immunosuppressants", "painkillers", "opioids", "steroids", "corticosteroids", "statins", "diuretics",
    "sedatives", "chemo", "chemotherapy", "dialysis",
    "birth control", "华法林", "阿司匹林", "二甲双胍", "胰岛素", "布洛芬", "扑热息痛", "对乙酰氨基酚", "头孢", "甲状腺素", "左甲状腺素", "优甲乐", "碳酸锂", "地高辛",
    "吗啡", "可待因", "甲氨蝶呤", "泼尼松", "强的松", "地塞米松", "沙丁胺醇", "舍曲林", "氟西汀", "帕罗西汀", "奥氮平", "喹硫平", "利培酮", "卡马西平",
    "丙戊酸钠", "拉莫三嗪", "别嘌醇", "秋水仙碱", "羟氯喹", "他克莫司", "环孢素", "螺内酯", "呋塞米", "硝酸甘油", "肝素", "抗生素", "抗凝剂", "激素",
    "褪黑素", "生长激素",
];

/// Stems of international nonproprietary names; the names that end in them are longer.
#[rustfmt::skip]
pub(super) const STEMS: &[&str] = &[
    "pril", "sartan", "olol", "statin", "prazole", "conazole", "cillin", "mycin", "floxacin", "cycline", "parin", "xaban", "gatran",
    "gliptin", "gliflozin", "glitazone", "formin", "azepam", "zolam", "oxetine", "triptan", "dipine", "thiazide", "profen",
    "barbital", "vudine", "tegravir", "ciclovir", "tumab", "zumab", "ximab", "mumab", "kinumab", "tinib", "lukast", "thyroxine", "tidine", "dronate", "semide", "setron", "peridol",
    "rizine", "ratadine", "glutide", "poetin", "zolamide",
    "西林", "霉素", "沙星", "他汀", "沙坦", "普利", "洛尔", "地平", "拉唑", "替丁", "格雷", "沙班", "双胍", "单抗", "替尼", "米松",
    "西泮", "唑仑", "洛芬", "曲坦", "列净", "列汀", "鲁肽",
];
/// Shortest name that a stem tells, in bytes.
pub(super) const STEM_NAME_BYTES_MIN: usize = 7;

/// Kinds of medicine that need no other word, by their last word.
#[rustfmt::skip]
pub(super) const KINDS: &[&str] = &[
    "thinner", "thinners", "blocker", "blockers", "inhibitor", "inhibitors", "inhaler", "inhalers", "immunotherapy",
];
/// Forms of medicine. What they are against, or of what, stands in front.
#[rustfmt::skip]
pub(super) const FORMS: &[&str] = &[
    "pill", "pills", "tablets", "capsules", "medication", "medications", "medicine", "medicines", "meds", "drops", "injections",
    "drugs",
];
#[rustfmt::skip]
pub(super) const OF_FORMS: &[&str] = &[
    "blood", "pressure", "heart", "thyroid", "sleeping", "sleep", "pain", "iron", "water", "anxiety", "diabetes", "asthma", "allergy",
    "epilepsy", "seizure", "cholesterol", "malaria", "hiv", "birth", "control", "contraceptive", "adhd", "depression", "arthritis", "migraine",
    "nausea", "kidney", "insulin", "eye", "hormone", "diet", "parkinson", "lupus", "gout", "psoriasis", "acne", "anti-anxiety", "immune", "bp",
    "reflux", "stomach", "cancer", "transplant", "rejection", "anti-rejection", "bipolar", "prescription",
];
/// What ends in 药 and is none, or says nothing of which it is.
#[rustfmt::skip]
pub(super) const NO_MEDICINES_CJK: &[&str] = &[
    "药", "山药", "火药", "农药", "芍药", "炸药", "弹药", "毒药", "后悔药", "错药", "淮山药", "药物", "假药", "牙药", "老鼠药", "杀虫药", "眼药", "麻药", "补药", "好药", "新药",
    "这种药", "那种药", "一种药", "很多药", "多少药", "一点药", "点药", "些药", "一些药",
];

/// Words in front of a name that say how much of it: they are left out of the name.
#[rustfmt::skip]
pub(super) const DOSES: &[&str] = &[
    "my", "the", "a", "an", "some", "of", "mg", "mcg", "ml", "g", "iu", "units", "unit", "milligrams", "milligram", "micrograms", "tablet", "tablets", "pill", "pills",
    "capsule", "capsules", "dose", "doses", "low-dose", "low", "high", "daily", "half", "one", "two", "three", "four", "baby", "puffs", "drops", "injection", "injections", "shots", "shot", "course",
    "long-acting", "oral", "prescribed", "generic",
];
/// The same in Chinese, a character each.
pub(super) const DOSES_CJK: &str = "一二两三四五六七八九十半几片粒颗毫克微升针支剂单位的量";

/// Words by which a sentence tells how much of a medicine, how often or when.
#[rustfmt::skip]
pub(super) const HOW_MUCH: &[&str] = &[
    "every", "each", "daily", "nightly", "weekly", "once", "twice", "times", "morning", "evening", "night", "noon", "half", "double",
    "mg", "mcg", "ml", "units", "dose", "doses", "for", "since", "until", "with", "without", "before", "after", "against", "because",
];
pub(super) const HOW_MUCH_CJK: &str = "早晚次片粒颗克针周睡饭半量年月";

/// Who has an illness, and which.
#[rustfmt::skip]
pub(super) const PATIENTS: &[(&str, &str)] = &[
    ("coeliac", "coeliac disease"), ("celiac", "coeliac disease"), ("diabetic", "diabetes"), ("type 1 diabetic", "type 1 diabetes"),
    ("type 2 diabetic", "type 2 diabetes"), ("asthmatic", "asthma"), ("epileptic", "epilepsy"), ("haemophiliac", "haemophilia"),
    ("hemophiliac", "haemophilia"), ("anaemic", "anaemia"), ("anemic", "anaemia"), ("hypertensive", "high blood pressure"),
    ("immunocompromised", "weak immune system"), ("immunosuppressed", "weak immune system"),
];
/// What is said, and the illness that is meant.
#[rustfmt::skip]
pub(super) const ILLNESSES: &[(&str, &str)] = &[
    ("coeliac disease", "coeliac disease"), ("celiac disease", "coeliac disease"), ("diabetes", "diabetes"), ("type 1 diabetes", "type 1 diabetes"),
    ("type 2 diabetes", "type 2 diabetes"), ("asthma", "asthma"), ("epilepsy", "epilepsy"), ("haemophilia", "haemophilia"),
    ("hemophilia", "haemophilia"), ("anaemia", "anaemia"), ("anemia", "anaemia"),
    ("high blood pressure", "high blood pressure"), ("hypertension", "high blood pressure"), ("low blood pressure", "low blood pressure"),
    ("heart disease", "heart disease"), ("heart failure", "heart failure"), ("heart condition", "heart disease"),
    ("kidney disease", "kidney disease"), ("kidney failure", "kidney failure"), ("liver disease", "liver disease"), ("angina", "angina"), ("atrial fibrillation", "atrial fibrillation"), ("copd", "copd"),
    ("crohn's disease", "crohn's disease"), ("crohn's", "crohn's disease"), ("ulcerative colitis", "ulcerative colitis"), ("lupus", "lupus"), ("multiple sclerosis", "multiple sclerosis"),
    ("parkinson's disease", "parkinson's disease"), ("parkinson's", "parkinson's disease"), ("hiv", "hiv"), ("cancer", "cancer"), ("leukaemia", "leukaemia"), ("leukemia", "leukaemia"), ("rheumatoid arthritis", "rheumatoid arthritis"), ("arthritis", "arthritis"),
    ("osteoporosis", "osteoporosis"), ("gout", "gout"), ("hypothyroidism", "hypothyroidism"), ("hyperthyroidism", "hyperthyroidism"), ("favism", "favism"), ("phenylketonuria", "phenylketonuria"), ("pku", "phenylketonuria"),
    ("mastocytosis", "mastocytosis"), ("glaucoma", "glaucoma"), ("depression", "depression"), ("bipolar disorder", "bipolar disorder"), ("schizophrenia", "schizophrenia"), ("adhd", "adhd"), ("narcolepsy", "narcolepsy"), ("sickle cell disease", "sickle cell disease"),
    ("cystic fibrosis", "cystic fibrosis"), ("pacemaker", "pacemaker"), ("hepatitis b", "hepatitis b"), ("hepatitis c", "hepatitis c"), ("eczema", "eczema"), ("psoriasis", "psoriasis"), ("migraines", "migraine"), ("hay fever", "hay fever"),
    ("糖尿病", "diabetes"), ("1型糖尿病", "type 1 diabetes"), ("2型糖尿病", "type 2 diabetes"), ("一型糖尿病", "type 1 diabetes"), ("二型糖尿病", "type 2 diabetes"), ("高血压", "high blood pressure"), ("低血压", "low blood pressure"),
    ("哮喘", "asthma"), ("癫痫", "epilepsy"), ("乳糜泻", "coeliac disease"), ("麸质不耐症", "coeliac disease"), ("心脏病", "heart disease"), ("冠心病", "heart disease"), ("心衰", "heart failure"), ("肾病", "kidney disease"), ("肾衰竭", "kidney failure"), ("肝病", "liver disease"),
    ("痛风", "gout"), ("血友病", "haemophilia"), ("蚕豆病", "favism"), ("房颤", "atrial fibrillation"), ("甲亢", "hyperthyroidism"), ("甲减", "hypothyroidism"), ("抑郁症", "depression"), ("贫血", "anaemia"), ("癌症", "cancer"),
    ("白血病", "leukaemia"), ("红斑狼疮", "lupus"), ("类风湿", "rheumatoid arthritis"), ("类风湿性关节炎", "rheumatoid arthritis"), ("骨质疏松", "osteoporosis"), ("青光眼", "glaucoma"), ("帕金森", "parkinson's disease"), ("帕金森病", "parkinson's disease"),
    ("乙肝", "hepatitis b"), ("丙肝", "hepatitis c"), ("精神分裂症", "schizophrenia"), ("双相情感障碍", "bipolar disorder"), ("湿疹", "eczema"), ("银屑病", "psoriasis"), ("偏头痛", "migraine"), ("花粉症", "hay fever"),
    ("克罗恩病", "crohn's disease"), ("苯丙酮尿症", "phenylketonuria"),
];

/// Behind "my allergy is" and in front of "allergy": words that begin how it is, and not what it is to.
#[rustfmt::skip]
pub(super) const NO_ALLERGENS_FIRST: &[&str] = &[
    "gone", "over", "cured", "worse", "better", "bad", "fine", "mild", "severe", "serious", "seasonal", "annoying", "terrible", "awful",
    "back", "acting", "flaring", "killing", "getting", "under", "controlled", "manageable", "severely", "not", "no", "any", "very", "so", "really",
    "quite", "pretty", "too", "much", "out", "well", "why", "nothing", "many", "multiple", "several", "few", "another", "other", "own", "almost", "life-threatening", "genetic",
    "zero", "suspected", "possible", "undiagnosed", "childhood", "same", "pet", "pets", "none", "on", "in", "at", "to", "from", "listed", "mostly", "documented", "like", "making", "driving", "always", "never", "still", "definitely", "known", "unknown", "common", "hereditary", "triggered", "caused", "slightly", "less", "more",
];
/// What nobody is allergic to, or what says nothing: by itself alone, since "food dyes" are something.
#[rustfmt::skip]
pub(super) const NO_ALLERGENS: &[&str] = &[
    "food", "foods", "skin", "drug", "drugs", "medication", "medications", "nasal", "contact", "real", "an", "new", "old", "bad", "good",
    "monday", "mondays", "friday", "fridays", "sunday", "sundays", "weekend", "weekends", "work", "working", "hard work", "mornings", "early mornings", "meetings", "nonsense",
    "bullshit", "stupidity", "drama", "people", "stupid people", "commitment", "school", "homework", "math", "maths", "responsibility", "bureaucracy", "exercise", "fun", "lies", "liars", "politics",
    "paperwork", "authority", "crowds", "waiting", "waste", "change", "risk", "success", "losing", "failure", "housework", "chores", "cleaning", "small talk", "emails", "shopping", "love", "romance", "life",
];
#[rustfmt::skip]
pub(super) const NO_ALLERGENS_CJK: &[&str] = &[
    "皮肤", "鼻子", "鼻", "眼睛", "季节", "季节性", "春季", "换季", "食物", "药物", "体质", "容易", "有点", "经常", "严重", "会", "老", "总", "周一", "星期一", "周末", "工作", "上班", "加班", "开会", "会议", "早起",
    "老板", "数学", "考试", "学习", "作业", "上学", "人类", "人", "社交", "怕", "害怕", "担心", "很多", "什么", "任何", "季节性的", "好", "治", "防", "抗", "脸", "手", "身体", "一",
];

/// Besides meat, fish and what animals give: what people may not eat, or are told not to.
#[rustfmt::skip]
pub(super) const RESTRICTED: &[&str] = &[
    "nuts", "nut", "peanuts", "peanut", "almonds", "walnuts", "cashews", "hazelnuts", "pistachios", "pecans", "gluten", "wheat", "rye", "barley", "oats", "soy", "soya",
    "lactose", "dairy", "shellfish", "seafood", "sesame", "mustard", "celery", "lupin", "sulphites", "sulfites", "molluscs", "mussels", "clams", "crustaceans", "alcohol", "caffeine", "coffee",
    "sugar", "salt", "sodium", "potassium", "grapefruit", "grapefruits", "citrus", "tomatoes", "strawberries", "onions", "garlic", "mushrooms", "beans", "chocolate", "yeast", "msg", "liquorice", "licorice", "wine", "beer", "bread", "kiwi",
    "花生", "坚果", "麸质", "小麦", "面筋", "大豆", "黄豆", "豆制品", "乳糖", "奶制品", "乳制品", "贝类", "甲壳类", "蟹", "芝麻", "蛋", "酒", "酒精", "咖啡因", "糖", "盐", "柚子", "西柚", "葡萄柚", "芒果", "辣", "辣椒", "生冷", "油腻", "蚕豆", "内脏", "甜食",
];

/// Behind "eat": words that begin something else than what is eaten.
#[rustfmt::skip]
pub(super) const NO_FOOD_FIRST: &[&str] = &[
    "at", "in", "on", "before", "after", "with", "without", "out", "alone", "late", "early", "fast", "slowly", "quickly", "because", "since",
    "until", "till", "during", "outside", "inside", "again", "together", "well", "enough", "from", "for", "by", "like", "another", "more", "much",
    "crow", "humble", "my", "too", "so", "right", "all", "while", "properly", "healthily", "healthy", "less", "up", "off", "away", "as", "and", "or", "to", "straight", "later", "once", "twice", "every", "often", "yet", "under", "between",
];
/// Where something *cannot* be eaten: words that say of how much, when or with whom that is so.
#[rustfmt::skip]
pub(super) const NARROWS: &[&str] = &[
    "bite", "whole", "entire", "much", "many", "more", "enough", "two", "three", "four", "five", "ten", "fast", "slowly", "quickly", "late", "early", "alone",
    "together", "outside", "yet", "with", "without", "until", "unless", "before", "after", "tomorrow", "than", "like", "at", "in", "from", "for", "big", "hot",
    "every", "again", "while", "anywhere", "quite", "left", "slice", "piece", "spoonful", "straight", "out",
];
/// Meals: one that is not eaten is a matter of a day.
#[rustfmt::skip]
pub(super) const MEALS: &[&str] = &[
    "breakfast", "lunch", "dinner", "supper", "brunch", "meal", "meals", "snack", "snacks", "dessert",
    "早饭", "午饭", "晚饭", "早餐", "午餐", "晚餐", "夜宵", "宵夜", "饭", "东西", "零食", "正餐",
];
/// Food as such, by itself.
pub(super) const FOOD: [&str; 5] = ["food", "anything", "something", "solids", "solid food"];
/// Behind 吃: what is no food, above all in set phrases.
#[rustfmt::skip]
pub(super) const NO_FOOD_CJK: &[&str] = &[
    "亏", "苦", "醋", "惊", "力", "香", "软", "硬", "老本", "官司", "闭门羹", "哑巴亏", "回头草", "眼前亏", "下", "下去", "起", "上", "完", "到", "饱", "撑", "了", "过", "多", "点", "快", "慢", "早", "晚",
    "太", "饭", "药", "东西", "什么", "得", "得下", "不下", "定", "透", "空", "紧", "掉", "独食", "软饭", "白食", "大锅饭", "皇粮", "枪子", "一口", "得消", "得开", "哑巴", "这套", "外卖", "食堂", "激将法", "软不吃硬",
];
/// What such a phrase begins with.
pub(super) const NO_FOOD_CJK_FIRST: [&str; 11] =
    ["了", "太", "得", "在", "一口", "下去", "兜", "那么", "很", "不", "再"];

/// What is carried against an allergy that can kill.
#[rustfmt::skip]
pub(super) const RESCUE: &[&str] = &[
    "epipen", "epipens", "epi-pen", "epi pen", "adrenaline pen", "adrenaline auto-injector", "epinephrine auto-injector", "auto-injector", "autoinjector",
    "jext", "anapen",
];

/// Nouns of health: what they "are" is more often a state than their name.
#[rustfmt::skip]
pub(super) const NOUNS: &[&str] = &[
    "allergy", "allergies", "intolerance", "intolerances", "medication", "medications", "medicine", "meds", "condition", "illness", "illnesses", "disease", "diagnosis",
    "过敏", "过敏原", "过敏源", "不耐受", "疾病", "病", "病情", "用药", "药",
];

/// What people are allergic to besides foods and medicines.
#[rustfmt::skip]
pub(super) const ALLERGENS: &[&str] = &[
    "pollen", "grass", "ragweed", "birch", "dust", "dust mites", "mold", "mould", "latex", "nickel", "iodine", "bees", "bee", "bee stings", "wasps", "wasp", "wasp stings",
    "hornets", "insects", "insect stings", "stings", "cats", "cat", "dogs", "dog", "horses", "pets", "fur", "feathers", "perfume", "fragrance", "sunscreen", "lactose", "fructose", "histamine",
    "sulfa", "sulfa drugs", "contrast dye", "anaesthetics", "anesthetics", "tree nut", "tree nuts", "food dyes", "egg", "eggs", "corn", "peach", "peaches", "apples", "bananas", "kiwis", "avocado", "lentils", "chickpeas", "spirulina",
    "花粉", "柳絮", "尘螨", "螨虫", "灰尘", "猫毛", "狗毛", "猫", "狗", "羽毛", "乳胶", "金属", "镍", "碘", "造影剂", "麻药", "蜂毒", "蜜蜂", "黄蜂", "蚊子", "紫外线", "磺胺", "桃子", "桃毛",
    "香水", "霉菌", "牛奶", "果糖",
];

/// What stands before a colon where the speaker goes on: a report, a role or another's name does not.
#[rustfmt::skip]
pub(super) const LEAD_INS: &[&str] = &[
    "note", "please note", "remember", "please remember", "important", "fyi", "update", "correction", "reminder", "ps", "p.s", "btw", "by the way", "also", "health",
    "medical", "medical info", "health info", "allergies", "diet", "one more thing", "记住", "请记住", "注意", "请注意", "重要", "备注", "提醒", "更正", "对了", "补充", "另外", "健康信息", "说明",
];

/// In a sentence that denies what harms: words by which it says less than that it is over, or is of some time or degree.
#[rustfmt::skip]
pub(super) const LESS_THAN_OVER: &[&str] = &[
    "severely", "deathly", "badly", "highly", "very", "extremely", "terribly", "mildly", "slightly", "violently", "always", "usually", "even", "normally",
    "generally", "mostly", "mainly", "only", "just", "really", "quite", "pretty", "so", "simply", "honestly", "totally", "officially", "both", "definitely", "severe", "bad", "serious",
    "mild", "strong", "deadly", "life-threatening", "often", "again", "today", "tonight", "week", "moment", "now", "while", "temporarily", "think", "yet",
    "supposedly", "apparently", "allegedly", "kidding", "joking", "lied", "false", "back",
];
pub(super) const LESS_THAN_OVER_CJK: &str = "总每天日时期需都太很常老随乱只仅光怎够暂先吧又";

/// In a sentence that denies that something is eaten: words of some time.
#[rustfmt::skip]
pub(super) const OF_SOME_TIME: &[&str] = &[
    "every", "each", "daily", "weekly", "once", "twice", "often", "always", "usually", "after", "before", "during", "again", "much", "near", "late", "early",
    "often", "sometimes", "often", "weekdays", "weekends",
];
