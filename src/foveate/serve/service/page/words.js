"use strict";
/** What the page says, in the languages of its readers. What the service says is English. */
const WORDS = {
  en: {
    name: "English", language: "Language", model: "Model", text: "Text", key: "Key", ask: "Ask", explain: "Show the attention", answer: "Answer", attention: "Attention",
    viewer: "Open this answer in the viewer", program: "The same from a program", copy: "Copy", copied: "Copied", selected: "Selected: copy it by the keys of your system",
    unknown: "The model does not know {words}.", others: "{count} others", seconds: "{count} s", gap: "Write ___ where a word is missing", loading: "The models are being loaded.", silent: "The service does not answer.",
    translate: "translate", generate: "generate", fill: "fill", tag: "tag", classify: "classify", speak: "speak", predict: "predict", files: "Models that read files",
  },
  fa: {
    name: "فارسی", language: "زبان", model: "مدل", text: "متن", key: "کلید", ask: "بپرس", explain: "نمایش توجه", answer: "پاسخ", attention: "توجه",
    viewer: "باز کردن این پاسخ در نمایشگر", program: "همین پرسش از یک برنامه", copy: "رونوشت", copied: "رونوشت شد", selected: "انتخاب شد: آن را با کلیدهای دستگاهتان رونوشت کنید",
    unknown: "مدل {words} را نمی‌شناسد.", others: "{count} مورد دیگر", seconds: "{count} ثانیه", gap: "جای واژهٔ افتاده ___ بنویسید", loading: "مدل‌ها در حال بارگذاری‌اند.", silent: "سرویس پاسخ نمی‌دهد.",
    translate: "ترجمه", generate: "تولید متن", fill: "پر کردن جای خالی", tag: "برچسب واژه‌ها", classify: "دسته‌بندی", speak: "گفتار", predict: "پیش‌بینی", files: "مدل‌هایی که پرونده می‌خوانند",
  },
  ru: {
    name: "Русский", language: "Язык", model: "Модель", text: "Текст", key: "Ключ", ask: "Спросить", explain: "Показать внимание", answer: "Ответ", attention: "Внимание",
    viewer: "Открыть этот ответ в просмотрщике", program: "То же самое из программы", copy: "Копировать", copied: "Скопировано", selected: "Выделено: скопируйте клавишами вашей системы",
    unknown: "Модель не знает {words}.", others: "ещё {count}", seconds: "{count} с", gap: "Напишите ___ на месте пропущенного слова", loading: "Модели загружаются.", silent: "Сервис не отвечает.",
    translate: "перевод", generate: "генерация текста", fill: "заполнение пропусков", tag: "разметка слов", classify: "классификация", speak: "речь", predict: "предсказание", files: "Модели, которые читают файлы",
  },
  zh: {
    name: "中文", language: "语言", model: "模型", text: "文本", key: "密钥", ask: "提问", explain: "显示注意力", answer: "回答", attention: "注意力",
    viewer: "在查看器中打开此回答", program: "用程序提出同样的问题", copy: "复制", copied: "已复制", selected: "已选中：请用系统的快捷键复制",
    unknown: "模型不认识{words}。", others: "另外 {count} 个", seconds: "{count} 秒", gap: "在缺词处写 ___", loading: "正在加载模型。", silent: "服务没有应答。",
    translate: "翻译", generate: "生成文本", fill: "填空", tag: "标注词语", classify: "分类", speak: "朗读", predict: "预测", files: "读取文件的模型",
  },
};

let language = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase()).find((code) => Object.hasOwn(WORDS, code)) ?? "en";
const said = (word, values = {}) => WORDS[language][word].replace(/\{(\w+)\}/g, (_, name) => values[name]);
/** A letter of Hebrew, Arabic, or a neighbour of theirs. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
/** A text that the service has written, apart from the direction of the sentence around it. */
const isolated = (text) => (language === "fa" || RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text);
