import { AppError } from '../../../../src/platform/app-error.ts';
import type { Component, Letter, Scenario } from './table.ts';

/** The releases of every scenario, in the order of their sequences. */
export const LETTERS: readonly Letter[] = ['A', 'B', 'C', 'D'];

/** What a release is made of, however it is made. */
export interface ReleasePlan {
  readonly sequence: number;
  readonly version: string;
  readonly schedule?: 'manual';
  readonly images: readonly ImagePlan[];
}

/**
 * One image: what has the same seed is the same image. Over its own layer, called as the seed, each
 * lies on the layer `os`; that of `base` is `os` alone.
 */
export interface ImagePlan {
  readonly component: Component;
  readonly seed: string;
  readonly repository: string;
  readonly tag: string;
}

/**
 * The plan of a release: the tag of etcd is the same in all, so that it moves; that of api is the
 * version.
 */
export function planOf(letter: Letter, traits: Scenario['traits'] = {}): ReleasePlan {
  const { imagesOf = letter, ...over } = traits[letter] ?? {};
  const image = (component: Component, seed: string, tag: string): ImagePlan => {
    return { component, seed, repository: `quay.example.com/ocp/${component}`, tag };
  };
  const owner = sequenceOf(imagesOf);
  return {
    sequence: sequenceOf(letter),
    version: versionOf(letter),
    ...over,
    images: [
      image('etcd', `etcd-${owner}`, 'current'),
      image('api', `api-${owner}`, versionOf(imagesOf)),
      image('base', 'base', '1'),
    ],
  };
}

/** `ocp@4.13.1` */
export function nameOf(letter: Letter): string {
  return `ocp@${versionOf(letter)}`;
}

/** Does it; resolves with the code when it is refused, which is an answer. */
export async function refusalOf(act: () => void | Promise<void>): Promise<string | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (error instanceof AppError && error.disposition === 'reject') return error.code;
    throw error;
  }
}

function sequenceOf(letter: Letter): number {
  return LETTERS.indexOf(letter) + 1;
}

function versionOf(letter: Letter): string {
  return `4.13.${sequenceOf(letter)}`;
}
