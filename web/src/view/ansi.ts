/** Parses text with the escape sequences that set colors into parts, each with the classes that draw it. */

export interface ColoredPart {
  text: string;
  /** Class names, separated by spaces; empty for plain text. */
  look: string;
}

interface Look {
  color: number | null;
  ground: number | null;
  isBold: boolean;
  isFaint: boolean;
  isUnderlined: boolean;
}

const PLAIN: Look = { color: null, ground: null, isBold: false, isFaint: false, isUnderlined: false };
const SEQUENCE = /\x1b\[([0-9;:]*)m/g;

export function parseColors(text: string): ColoredPart[] {
  const parts: ColoredPart[] = [];
  let look = PLAIN;
  let end = 0;
  const add = (until: number) => {
    const piece = text.slice(end, until);
    if (!piece) return;
    const name = nameLook(look);
    const last = parts[parts.length - 1];
    if (last && last.look === name) last.text += piece;
    else parts.push({ text: piece, look: name });
  };
  for (const found of text.matchAll(SEQUENCE)) {
    add(found.index);
    look = applyCodes(look, found[1]!);
    end = found.index + found[0].length;
  }
  add(text.length);
  return parts;
}

function applyCodes(before: Look, codes: string): Look {
  let look = { ...before };
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at]!;
    if (code === 0) look = { ...PLAIN };
    else if (code === 1) look.isBold = true;
    else if (code === 2) look.isFaint = true;
    else if (code === 4) look.isUnderlined = true;
    else if (code === 22) look = { ...look, isBold: false, isFaint: false };
    else if (code === 24) look.isUnderlined = false;
    else if (code === 38 || code === 48) {
      // 5;N is one of 256 colors, of which the first 16 have names; 2;R;G;B is any.
      const color = numbers[at + 1] === 5 && numbers[at + 2]! < 16 ? numbers[at + 2]! : null;
      if (code === 38) look.color = color;
      else look.ground = color;
      at += numbers[at + 1] === 5 ? 2 : numbers[at + 1] === 2 ? 4 : 0;
    } else if (code >= 30 && code <= 37) look.color = code - 30;
    else if (code >= 90 && code <= 97) look.color = code - 90 + 8;
    else if (code === 39) look.color = null;
    else if (code >= 40 && code <= 47) look.ground = code - 40;
    else if (code === 49) look.ground = null;
  }
  return look;
}

function nameLook(look: Look): string {
  const names = [look.color !== null && `ansi-${look.color % 8}`, look.ground !== null && "ansi-ground", look.isBold && "ansi-bold", look.isFaint && "ansi-faint", look.isUnderlined && "ansi-under"];
  return names.filter(Boolean).join(" ");
}
