import { loadTrustedKeys } from '../bundle/trust.ts';
import { findingsOn } from '../domain/finding.ts';
import type { Check } from './run-checks.ts';

/** The keys that bundles are judged by. `threshold` distinct ones must have signed. */
export function checkKeys(folder: string, threshold: number): Check {
  const { ok, warning, fault } = findingsOn('keys');
  return {
    subject: 'keys',
    look: async (signal) => {
      const { keys, problems } = await loadTrustedKeys(folder, signal);
      const troubles = problems.map(({ message }) => warning(message, 'mend the file or move it away'));
      const names = keys.map((key) => key.name).join(', ');
      if (keys.length === 0) {
        return [
          ...troubles,
          fault(`no key is trusted, so that no signature counts`, `copy the factory's .pub file to ${folder}`),
        ];
      }
      if (keys.length < threshold) {
        const message = `only ${names} is trusted, but trust.threshold wants ${threshold} distinct keys`;
        return [...troubles, fault(message, `copy more .pub files to ${folder}, or lower the threshold`)];
      }
      return [...troubles, ok(`trusted: ${names}`)];
    },
  };
}
