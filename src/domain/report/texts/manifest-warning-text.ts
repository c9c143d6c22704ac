import { assertNever } from '../../../platform/app-error.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import type { ManifestProblem, ManifestWarning } from '../../release/manifest-warnings.ts';

/** A warning as one line: the file, who uses the image, what is wrong with it and what to do. */
export function manifestWarningText({ problem, first, more }: ManifestWarning): string {
  const others = more === 0 ? '' : ` and ${more} more`;
  return oneLine(`${first.file}: ${first.usedBy}${others}: ${problemText(problem)}`);
}

function problemText(problem: ManifestProblem): string {
  switch (problem.kind) {
    case 'no-image':
      return 'it names no image';
    case 'always-pulled':
      return alwaysText(problem);
    case 'no-full-name':
      return `image ${problem.image} is not in the bundle: it has no full name, as quay.io/…`;
    case 'not-carried':
      return `image ${problem.image} is not in the bundle`;
    case 'other-digest':
      return `image ${problem.image} is not in the bundle: it carries another digest of ${problem.repository}`;
    case 'other-tag': {
      const { image, tags } = problem;
      const known = tags.length === 0 ? 'images without a tag' : `the tags ${shown(tags)}`;
      return `image ${image} is not in the bundle by that tag: the bundle has only ${known} of its repository`;
    }
    default:
      return assertNever(problem);
  }
}

function alwaysText({ image, since }: Extract<ManifestProblem, { readonly kind: 'always-pulled' }>): string {
  const costs = 'the node asks the registry each time it starts';
  switch (since) {
    case 'policy':
      return `imagePullPolicy of ${image} is Always: ${costs}; use IfNotPresent`;
    case 'no-tag':
      return `image ${image} has no tag, which means imagePullPolicy Always: ${costs}; use a version`;
    case 'latest':
      return `image ${image} has the tag 'latest', which means imagePullPolicy Always: ${costs}; use a version`;
    default:
      return assertNever(since);
  }
}

function shown(tags: readonly string[]): string {
  return tags.length <= 5 ? tags.join(', ') : `${tags.slice(0, 5).join(', ')} …`;
}
