import { assertNever } from '../../../platform/app-error.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { ActivationHold } from '../../gates/gates.ts';
import type { ElsewhereUse } from '../../release/pulls/pulls-from-elsewhere.ts';
import type { PullCheck } from '../../state/checks.ts';

/** How many images a text names. */
const NAMED = 20;

/** What a test pull has shown, and what to do: one sentence or two, without full stop. */
export function pullCheckText({ reference, end }: Pick<PullCheck, 'reference' | 'end'>): string {
  switch (end.kind) {
    case 'answered':
      return end.isProbe === true
        ? `the runtime asked stickpin's registry for the repository of ${reference}, and was answered`
        : `the runtime pulled ${reference}, and stickpin's registry answered it`;
    case 'not-asked':
      return `the runtime pulled ${reference} from another registry and did not ask stickpin's, so that the pull fails without a network. ${LOOK_AT_MIRRORS}`;
    case 'not-sent':
      return `the runtime pulled ${reference} from another registry, since stickpin's has no manifest and configuration of it to send. So the pull fails without a network. ${LOOK_AT_DOCUMENTS}`;
    case 'failed':
      if (end.isAsked && !end.isSent) {
        return `the pull of ${reference}, which is present, failed, since stickpin's registry has no manifest and configuration of it to send: ${end.reason.message}. ${LOOK_AT_DOCUMENTS}`;
      }
      return end.isAsked
        ? `the pull of ${reference}, which is present, failed although stickpin's registry was asked: ${end.reason.message}. Look into the journal of the runtime, and run 'stickpin doctor' again`
        : `the pull of ${reference}, which is present, failed, and stickpin's registry was not asked: ${end.reason.message}. ${LOOK_AT_MIRRORS}`;
    case 'timed-out':
      return `the pull of ${reference}, which is present, did not end within ${formatDuration(end.afterMs)}. Look into the journal of the runtime, and run 'stickpin doctor' again`;
    case 'runtime-away':
      return `the pull of ${reference} could not be tested: ${end.reason.message}. Run 'stickpin doctor' when the runtime answers`;
    case 'image-gone':
      return `the pull of ${reference} could not be tested, since the image was removed meanwhile`;
    default:
      return assertNever(end);
  }
}

const LOOK_AT_DOCUMENTS = 'Plug in the stick of its release, and stickpin keeps them again';
const LOOK_AT_MIRRORS = "'stickpin doctor' tells whether the runtime reads its mirrors; restart it if it does";

/** Which images come from elsewhere, and what to do. At least one. */
export function elsewhereText(uses: readonly ElsewhereUse[]): string {
  const named = uses.slice(0, NAMED).map(({ image, usedBy, more, release }) => {
    const others = more === 0 ? '' : ` and ${more} more`;
    const later = release === undefined ? '' : `; ${release} provides it once it is activated`;
    return `${image} (${usedBy}${others}${later})`;
  });
  const rest = uses.length > NAMED ? `, and ${uses.length - NAMED} more` : '';
  const count = formatCount(uses.length, 'image');
  return `no activated release answers a pull of ${count}, so that it fails without a network: ${named.join(', ')}${rest}. ${elsewhereAdvice(uses)}, or use names that a release provides`;
}

function elsewhereAdvice(uses: readonly ElsewhereUse[]): string {
  const releases = [...new Set(uses.flatMap(({ release }) => release ?? []))].join(' and ');
  const lacking = uses.filter(({ release }) => release === undefined).length;
  if (lacking === 0) return `Activate ${releases}`;
  const names = lacking === 1 ? 'this name' : 'these names';
  if (releases === '') return `Add ${lacking === 1 ? 'it' : 'them'} to a bundle under ${names}`;
  return `Activate ${releases}, and add ${lacking === 1 ? 'the other one' : 'the others'} to a bundle under ${names}`;
}

type ElsewhereHold = Extract<ActivationHold, { readonly code: 'engine/pulls-from-elsewhere' }>;

/** Why images from elsewhere hold an activation: a clause. */
export function elsewhereClause(data: ElsewhereHold['data']): string {
  const setting = 'update.pulls_from_elsewhere is "hold"';
  switch (data.kind) {
    case 'found': {
      const others = data.more === 0 ? '' : ` and ${formatCount(data.more, 'other image')}`;
      return `${data.image}${others} would still come from elsewhere (${data.usedBy}), and ${setting}`;
    }
    case 'unknown':
      return `nobody knows which images static pods and containers ask for, and ${setting}`;
    default:
      return assertNever(data);
  }
}
