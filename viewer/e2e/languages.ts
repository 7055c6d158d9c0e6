/** A small translator of several languages: letters become capitals, or letters of Persian, and these become letters again. */

import { writeFileSync } from "node:fs";
import { foveate } from "./command";

const LETTERS = "abcdef";
const PERSIAN = "ابپتثج";
const SETTINGS = [
  ...["data.direction_column=0", "data.max_tokens=512", "data.held_out=20", "source_tokeniser=word", "joint_vocabulary=true"],
  ...["model=transformer", "model.share=all", "model.encoder_layers=1", "model.decoder_layers=1", "model.block.model_dim=32"],
  ...["model.block.num_heads=2", "model.block.feedforward_dim=64", "model.block.dropout=0", "label_smoothing=0"],
  ...["train.steps=200", "train.learning_rate=8e-3", "train.validate_every=100", "train.schedule.warmup=20"],
];

const spaced = (letters: readonly string[]): string => letters.join(" ");
export const capitals = (letters: string): string => spaced([...letters].map((letter) => letter.toUpperCase()));
export const persian = (letters: string): string => spaced([...letters].map((letter) => PERSIAN[LETTERS.indexOf(letter)]!));

/** Trains it in some seconds. */
export function trainLanguages(folder: string): string {
  const words = [...LETTERS].flatMap((first) => [...LETTERS].flatMap((second) => [...LETTERS].map((third) => first + second + third)));
  const rows = words.flatMap((word) => [`en-de\t${spaced([...word])}\t${capitals(word)}`, `en-fa\t${spaced([...word])}\t${persian(word)}`, `fa-en\t${persian(word)}\t${spaced([...word])}`]);
  writeFileSync(`${folder}.tsv`, rows.map((row) => `${row}\n`).join(""));
  foveate("train", "translate", "--source", `${folder}.tsv`, "--out", folder, ...SETTINGS.flatMap((setting) => ["--set", setting]), "--no-tune", "--threads", "1");
  return folder;
}
