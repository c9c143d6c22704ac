import { bundleName } from '../../model/bundle.ts';
import type { HookName } from '../../state/hook.ts';
import type { StoredBundle } from '../../state/state.ts';

/** What the unit of a hook gets. */
interface HookSubject {
  readonly hook: HookName;
  readonly bundle: Pick<StoredBundle, 'bundleId' | 'payload'>;
  /** Absolute path of the folder with its attached files; undefined when there are none. */
  readonly attachments: string | undefined;
}

/**
 * The content of the unit's environment file, for `EnvironmentFile=` (systemd.exec(5)). Every value
 * stands in double quotes, in which `"`, `\`, `$` and a backtick are escaped.
 *
 * @returns undefined when a value has control characters, with which systemd would ignore it
 */
export function hookEnvironment({ hook, bundle, attachments = '' }: HookSubject): string | undefined {
  const { bundleId, payload } = bundle;
  const values = {
    STICKPIN_HOOK: hook,
    STICKPIN_BUNDLE: bundleName(payload),
    STICKPIN_NAME: payload.name,
    STICKPIN_VERSION: payload.version,
    STICKPIN_DIGEST: bundleId,
    STICKPIN_ATTACHMENTS: attachments,
  };
  if (Object.values(values).some((value) => /\p{Cc}/u.test(value))) return undefined;
  return Object.entries(values)
    .map(([name, value]) => `${name}="${value.replace(/["\\$`]/g, '\\$&')}"\n`)
    .join('');
}
