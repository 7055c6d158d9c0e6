/** What the viewer says, in the languages of its readers. A text that a language lacks is said in English. */

import english from "./en.json";
import persian from "./fa.json";
import russian from "./ru.json";
import chinese from "./zh.json";

export type Word = keyof typeof english;
export const LANGUAGES = { en: "English", fa: "فارسی", ru: "Русский", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;
const STRINGS: Record<Language, Partial<Record<Word, string>>> = { en: english, fa: persian, ru: russian, zh: chinese };

export function spoken(language: Language, word: Word, values: Record<string, string | number> = {}): string {
  const text = STRINGS[language][word] ?? english[word];
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
}

/** The reader's language, where the viewer speaks it. */
export function preferred(languages: readonly string[]): Language {
  for (const tag of languages) {
    const language = tag.slice(0, 2).toLowerCase();
    if (language in LANGUAGES) return language as Language;
  }
  return "en";
}
