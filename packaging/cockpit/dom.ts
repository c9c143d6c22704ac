import { clip, plainText } from '../../src/platform/plain-text.ts';

export type Child = Node | string | undefined | readonly Child[];

interface Properties {
  readonly class?: string;
  readonly onclick?: () => void;
  /** Of a bar, in percent. */
  readonly width?: number;
  readonly [attribute: string]: string | number | boolean | (() => void) | undefined;
}

/** An element with text as text. `true` is an attribute without value, `false` none. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  { onclick, width, ...attributes }: Properties = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  if (onclick !== undefined) element.onclick = onclick;
  if (width !== undefined) element.style.width = `${width}%`;
  element.append(...nodesOf(children));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

export function svg(tag: string, attributes: Properties, ...children: readonly Child[]): SVGElement {
  const element = document.createElementNS(SVG, tag) as SVGElement;
  setAttributes(element, attributes);
  element.append(...nodesOf(children));
  return element;
}

/** The longest text from elsewhere that is shown. */
const MAX_TEXT = 2_000;

/** What is no word and may be broken inside: a digest, a reference, a path. */
const LONG = /(\S{20,})/;

/**
 * Text from a stick, the runtime or another node. It can't change the direction of what is around
 * it.
 */
export function foreign(text: string): HTMLElement {
  const parts = clip(plainText(text), MAX_TEXT)
    .split(LONG)
    .map((part, at) => (at % 2 === 0 ? part : el('span', { class: 'sp-long' }, part)));
  return el('bdi', { class: 'sp-foreign' }, ...parts);
}

/**
 * Gives `host` these children. Elements that fit stay, so that the focus, a selection and the place
 * to which a person scrolled stay.
 */
export function update(host: Element, ...children: readonly Child[]): void {
  const next = nodesOf(children);
  for (const [at, node] of next.entries()) {
    const old = host.childNodes[at];
    if (old === undefined) host.append(node);
    else become(old, node);
  }
  while (host.childNodes.length > next.length) host.lastChild?.remove();
}

function become(old: ChildNode, next: Node): void {
  if (old instanceof Text && next instanceof Text) {
    if (old.data !== next.data) old.data = next.data;
  } else if (isStyled(old) && isStyled(next) && old.tagName === next.tagName && old.id === next.id) {
    for (const { name } of [...old.attributes]) {
      if (name !== 'style' && !next.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (name !== 'style' && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
    if (old instanceof HTMLElement && next instanceof HTMLElement) old.onclick = next.onclick;
    update(old, ...next.childNodes);
  } else {
    old.replaceWith(next);
  }
}

function isStyled(node: Node): node is HTMLElement | SVGElement {
  return node instanceof HTMLElement || node instanceof SVGElement;
}

function setAttributes(element: Element, attributes: Properties): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || typeof value === 'function') continue;
    element.setAttribute(name, value === true ? '' : String(value));
  }
}

function nodesOf(children: readonly Child[]): readonly Node[] {
  return children.flatMap((child): readonly Node[] => {
    if (child === undefined) return [];
    if (typeof child === 'string') return [document.createTextNode(clip(plainText(child), MAX_TEXT))];
    return child instanceof Node ? [child] : nodesOf(child);
  });
}
