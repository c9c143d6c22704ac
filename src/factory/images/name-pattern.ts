/** A pattern of names of images: `*` stands for any text. */
export class NamePattern {
  private hasFitted = false;

  constructor(readonly text: string) {}

  /** A name fitted it so far. */
  get isUsed(): boolean {
    return this.hasFitted;
  }

  fits(name: string): boolean {
    const doesFit = this.matches(name);
    this.hasFitted ||= doesFit;
    return doesFit;
  }

  private matches(name: string): boolean {
    const [first = '', ...others] = this.text.split(/\*+/);
    const last = others.pop();
    if (last === undefined) return name === first;
    if (!name.startsWith(first)) return false;
    let at = first.length;
    for (const part of others) {
      const found = name.indexOf(part, at);
      if (found < 0) return false;
      at = found + part.length;
    }
    return name.endsWith(last) && name.length - last.length >= at;
  }
}
