import { type Finding, findingsOn } from '../../domain/model/reason.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { Check, ExaminedCrio, ExaminedNode } from '../check.ts';
import { crioCheck, textOf } from './crio-check.ts';

/**
 * Whether both copies of the pins agree, and no file of others takes pins away
 * (docs/runtime-facts.md, fact 5).
 */
export function checkCrioPins({ crio }: Pick<ExaminedNode, 'crio'>): readonly Check[] {
  return crioCheck('crio pins', crio, lookAtPins);
}

async function lookAtPins({ paths, inspectPins }: ExaminedCrio, signal: AbortSignal): Promise<Finding> {
  const { ok, fault, warning } = findingsOn('crio pins');
  const [kept, read] = [await textOf(paths.persistentPinsFile), await textOf(paths.pinsFile)];
  const { rendered, fault: trouble } = await inspectPins(signal);
  if (trouble !== undefined) return fault(trouble.message, 'change that file; stickpin continues automatically');
  if ((kept ?? '') !== (read ?? '')) {
    const how = (read ?? '') === '' ? 'does not hold the pins of' : 'differs from';
    return warning(
      `${paths.pinsFile} ${how} ${paths.persistentPinsFile}`,
      'run stickpin rescan; while the daemon runs, both are written again',
    );
  }
  return rendered.length === 0
    ? ok('no image is pinned by stickpin')
    : ok(
        `${formatCount(rendered.length, 'image')} ${rendered.length === 1 ? 'is' : 'are'} pinned, and no file of others takes ${rendered.length === 1 ? 'it' : 'them'} away`,
      );
}
