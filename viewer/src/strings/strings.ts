/** What the viewer says, in the languages of its readers. A text that a language lacks is said in English. */

import { direction } from "../label";
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
  return text.replace(/\{(\w+)\}/g, (_, name: string) => isolated(language, String(values[name] ?? "")));
}

/** A value that reads the other way than the sentence around it is set apart, so that neither reorders the other. */
export function isolated(language: Language, value: string): string {
  const sentence = language === "fa" ? "rtl" : "ltr";
  if (sentence === "rtl" && /^[−+]?[\d.]+(e[−+]?\d+)?$/.test(value)) return `\u2066${value}\u2069`;
  return /\p{L}/u.test(value) && direction(value) !== sentence ? `\u2068${value}\u2069` : value;
}

/** The reader's language, where the viewer speaks it. */
export function preferred(languages: readonly string[]): Language {
  for (const tag of languages) {
    const language = tag.slice(0, 2).toLowerCase();
    if (language in LANGUAGES) return language as Language;
  }
  return "en";
}
