//! The rules of Chinese. A subject that is left out is the one who speaks.

use super::rules::{Act, Need, Row};

use Act::{Alone, Change, Denied, Eaten, Forbidden, State, Wish};
use Need::{
    Allergen, Any, Date, Diet, DietPerson, Food, Illness, KnownAllergen, KnownFood, Meal, Medicine, Name,
    NoDate, Number, Occupation, Place, Thing, Value,
};

/// In the order in which they are tried: the particular before the general.
#[rustfmt::skip]
pub(super) const RULES: &[Row] = &[
    // Places.
    ("[{s}]<adv>(住在|居住在|定居在|定居|常住)[了]{o}", "lives in", "", Place, State, 0.9),
    ("[{s}]<adv>[从{x}](搬到了|搬到|搬去了|搬去|搬家到了|搬家到|搬回了|搬回|移居到|移居)[了]{o}[住|生活|来|去]", "lives in", "", Place, Change, 0.9),
    ("[{s}]<adv>(来自|出生于|出生在|生于){o}", "born in", "", NoDate, State, 0.9),
    ("[{s}]<adv>(出生于|生于){o}", "birthday", "", Date, State, 0.9),
    ("[{s}]<adv>是{o}人", "born in", "", NoDate, State, 0.9),
    // Work and school.
    ("[{s}]<adv>(就职于|任职于|供职于){o}", "works at", "", Place, State, 0.9),
    ("[{s}]<adv>在{o}(工作|上班|任职|做事)", "works at", "", Place, State, 0.9),
    ("[{s}]<adv>(跳槽到了|跳槽到|跳槽去了|跳槽去|入职了|入职|加入了){o}", "works at", "", Place, Change, 0.9),
    ("[{s}]<adv>(是|当)[一名|一个|一位|了]{o}", "job", "", Occupation, State, 0.9),
    ("[{s}]<adv>(当上了|成了|成为了|成为|转行做|转行当)[一名|一个|一位]{o}", "job", "", Occupation, Change, 0.9),
    ("[{s}]<adv>(就读于|在){o}(上学|读书|念书|读大学|上大学)", "studies at", "", Place, State, 0.9),
    ("[{s}]<adv>就读于{o}", "studies at", "", Place, State, 0.9),
    // Food, health, habits.
    ("[{s}]<adv>(是一个|是一名|是一位|是个|是名|是位|是|坚持|选择){o}", "diet", "", Diet, State, 0.9),
    ("[{s}]<adv>(成了|成为了|成为|变成了|变成|改成了|改成|改)[一个|一名|个|名]{o}", "diet", "", Diet, Change, 0.9),
    ("[{s}]<adv>(吃素|茹素)[已经{x}|好多年|多年|{x}年|{x}个月]", "diet", "vegetarian", Any, State, 0.9),
    ("{o}", "diet", "", DietPerson, Alone, 0.9),
    ("[{s}]<adv>对{o}[严重|重度|轻度|轻微|有点|非常|很|会]过敏", "allergic to", "", Allergen, State, 1.0),
    ("[{s}]<adv>[有]{o}过敏[史|症]", "allergic to", "", KnownAllergen, State, 1.0),
    ("我[的](过敏原|过敏源)(是|为|有|包括){o}", "allergic to", "", Allergen, State, 1.0),
    ("[{s}]<adv>[对|有]{o}不耐受[症]", "intolerant to", "", Allergen, State, 1.0),
    ("[{s}]<adv>(患有|患了|患上了|得了|有|确诊为|确诊了|确诊|被诊断患有|被诊断为|被诊断出|被确诊为|查出了|查出){o}", "illness", "", Illness, State, 1.0),
    ("[{s}]<adv>是[一名|一个|一位|个|名|位]{o}(患者|病人)", "illness", "", Illness, State, 1.0),
    ("[{s}]<adv>[必须|需要|需|得|要|都要|都得][每天都要|每天必须|每天都|每天要|每天得|每天|每日|天天|每晚|每周|长期|定期|按时][早上|晚上|睡前|早晚|饭后|饭前|中午][都要|都|要|得|必须][在](服用|口服|注射|吃|打|用)[着]{o}[已经{x}|有{x}|治{x}|来{x}]", "medication", "", Medicine, State, 1.0),
    ("[我的|家庭|主治](医生|大夫|医院)(让|叫|要求|嘱咐|要)我[每天|每日|每晚|长期|定期|按时][早上|晚上|睡前|饭后|饭前](服用|口服|注射|吃|打|用){o}", "medication", "", Medicine, State, 1.0),
    ("[我的|家庭|主治](医生|大夫|医院)给我开了{o}", "medication", "", Medicine, State, 1.0),
    ("[{s}]<adv>(停了|停用了|停用|停掉了|停掉|停服了|停服|停吃了|停吃|停止服用|停止使用|停){o}", "no longer medication", "", Medicine, Denied, 1.0),
    ("[{s}]<adv>把{o}(停了|停掉了|停掉|停用|停服|停)", "no longer medication", "", Medicine, Denied, 1.0),
    ("[我的|家庭|主治](医生|大夫|医院)(让|叫)我(停了|停用|停掉|停服|停){o}", "no longer medication", "", Medicine, Denied, 1.0),
    ("[{s}]<adv>(服用|注射|吃|打|用|碰){o}", "tolerates", "", Medicine, Forbidden, 1.0),
    ("[{s}]<adv>(碰|沾){o}", "eats", "", KnownFood, Forbidden, 0.7),
    ("[{s}]<adv>(吃不了|吃不得){o}", "does not eat", "", KnownFood, Denied, 0.7),
    ("[{s}]<adv>(喝不了|喝不得){o}", "does not drink", "", KnownFood, Denied, 0.7),
    ("[{s}]<adv>[必须|要|得|需要|尽量](避免吃|避免|忌口|忌食|忌吃){o}", "does not eat", "", KnownFood, Denied, 0.7),
    ("[{s}]<adv>[在{x}|和{x}|跟{x}](吃了|吃过|点了|尝了|烤了|煎了)[一块|一份|一个|一点|一顿|点|顿|块|份|个]{o}", "ate", "", Food, Eaten, 0.5),
    ("[{s}]<adv>(想尝尝|想试试|想尝试|想吃点|想吃|想喝点|想喝|想来点|想来份|要吃|要喝|想要吃|破例吃|例外吃){o}", "eats", "", Food, Wish, 0.5),
    ("[{s}]<adv>(改吃|吃){o}", "eats", "", Meal, State, 0.7),
    ("[{s}]<adv>(改喝|喝){o}", "drinks", "", Meal, State, 0.7),
    ("[{s}]<adv>(抽烟|吸烟)", "smoking", "smokes", Any, State, 0.7),
    // Attitudes.
    ("我[的]最(喜欢|爱)的{p}(是|叫){o}", "favorite *", "", Any, State, 0.7),
    ("[{s}]<adv>(受不了|讨厌|厌恶|痛恨|恨){o}", "hates", "", Any, State, 0.7),
    ("[{s}]<adv>(热爱|酷爱|爱上了|爱上|爱){o}", "loves", "", Any, State, 0.7),
    ("[{s}]<adv>(喜欢上了|喜欢上|喜欢|喜爱|偏爱){o}", "likes", "", Any, State, 0.7),
    ("[{s}]<adv>对{o}(感兴趣|很感兴趣|有兴趣)", "likes", "", Any, State, 0.7),
    // Who one is.
    ("(我叫|我的名字叫|我的名字是|我名叫|叫我|请叫我){o}", "name", "", Any, State, 0.9),
    ("[{s}]<adv>[今年|满|快]{o}岁", "age", "", Number, State, 0.9),
    ("[{s}][的]生日(是|在){o}", "birthday", "", Date, State, 0.9),
    ("[{s}]<adv>(会说|会讲|说|讲){o}(语|话)", "speaks", "", Any, State, 0.9),
    ("[{s}]<adv>会(说|讲){o}", "speaks", "", Any, State, 0.9),
    // People.
    ("[{s}]<adv>(和|跟|与){o}结婚", "married to", "", Name, Change, 0.9),
    ("[{s}]<adv>嫁给了{o}", "married to", "", Name, Change, 0.9),
    ("[{s}]<adv>娶了{o}", "married to", "", Name, Change, 0.9),
    ("[{s}]<adv>(离婚|离异)", "marital status", "divorced", Any, Change, 0.9),
    ("[{s}]<adv>[是]单身", "marital status", "single", Any, State, 0.9),
    ("[{s}]<adv>(结婚|已婚)", "marital status", "married", Any, Change, 0.9),
    ("[{s}]<adv>(有|养了|养着|养|领养了|买了)[一|两|三|1|2|3][只|条|个|辆|台|位|套]{o}", "has", "", Thing, State, 0.7),
    // Possessives.
    ("我[的](爸爸|父亲)(叫|名叫|名字叫|的名字是){o}", "father", "", Any, State, 0.9),
    ("我[的](妈妈|母亲)(叫|名叫|名字叫|的名字是){o}", "mother", "", Any, State, 0.9),
    ("我[的](老公|丈夫|老婆|妻子|爱人)(叫|名叫|名字叫|的名字是){o}", "married to", "", Name, State, 0.9),
    ("我[的](男朋友|女朋友|男友|女友)(叫|名叫|名字叫|的名字是){o}", "dating", "", Any, State, 0.9),
    ("我[的](未婚夫|未婚妻)(叫|名叫|名字叫|的名字是){o}", "engaged to", "", Any, State, 0.9),
    ("我[的](老板|上司)(叫|名叫|名字叫|的名字是){o}", "boss", "", Any, State, 0.9),
    ("我的{p}(是|为|叫|改成了|改为|换成了){o}", "", "", Value, State, 0.7),
    ("{s}的{p}(是|为|叫|变成了|改为|位于){o}", "", "", Value, State, 0.6),
    ("{s}(位于|坐落于|坐落在){o}", "located in", "", Any, State, 0.6),
    // The passive, and verbs of lasting relations.
    ("{s}(是由|由){o}(创立|创办|创建|成立)[的]", "founded by", "", Any, State, 0.6),
    ("{s}(是由|由){o}(撰写|创作|编写|写|所著|著)[的]", "written by", "", Any, State, 0.6),
    ("{s}(是由|由){o}(执导|导演)[的]", "directed by", "", Any, State, 0.6),
    ("{s}(是由|由){o}(开发|研发)[的]", "developed by", "", Any, State, 0.6),
    ("{s}(是由|由){o}(演唱|演奏|表演)[的]", "performed by", "", Any, State, 0.6),
    ("{s}(是由|由){o}(出版|发行)[的]", "published by", "", Any, State, 0.6),
    ("{s}(是由|由){o}(制作|生产|制造|出品)[的]", "produced by", "", Any, State, 0.6),
    ("{s}(是由|由){o}(发明|设计)[的]", "designed by", "", Any, State, 0.6),
    ("{s}<adv>(创立于|成立于|创办于|始建于){o}", "founded in", "", NoDate, State, 0.6),
    ("{s}<adv>(创立于|成立于|创办于|始建于){o}", "founded on", "", Date, State, 0.6),
    ("[{s}]<adv>毕业于{o}", "graduated from", "", Place, State, 0.9),
    ("{s}<adv>(效力于|效力){o}", "plays for", "", Any, State, 0.6),
    ("[{s}]<adv>(信仰|信奉|信){o}教", "religion", "", Any, State, 0.9),
    ("{s}<adv>(逝世于|去世于|卒于){o}", "died in", "", NoDate, State, 0.6),
    ("{s}<adv>以{o}(闻名|著称|出名|而闻名|而著称)", "famous for", "", Any, State, 0.6),
    ("[{s}]<adv>是{o}(公民|国籍)", "nationality", "", Any, State, 0.9),
];
