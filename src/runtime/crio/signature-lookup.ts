import { rm } from 'node:fs/promises';
import { readIfPresent } from '../../platform/files/durable-file.ts';
import { walkFiles, writeDurably } from '../config/config-file.ts';
import type { MirrorAddress } from '../config/toml-text.ts';
import { writeError } from '../cri/runtime-error.ts';

export interface SignatureLookupPaths {
  /** `/etc/containers/policy.json` */
  readonly policyPath: string;
  /**
   * `/etc/crio/policies`: `NAMESPACE.json` counts for the pods of a namespace instead. CRI-O checks
   * the stored signatures by it whenever it creates a container.
   */
  readonly policiesDirectory: string;
  /** A file in `/etc/containers/registries.d`, which CRI-O reads at each pull. */
  readonly signatureLookupFile: string;
}

/**
 * Makes CRI-O look up sigstore signatures on our registry: it uses the configuration of the
 * mirror's name (docs/runtime-facts.md, fact 12), not of the original registry.
 */
export interface SignatureLookup {
  /** Removes the file if no policy demands signatures. @throws AppError `runtime/write` */
  write(): Promise<void>;
  /** @throws AppError `runtime/write` */
  remove(): Promise<void>;
  isCurrent(): Promise<boolean>;
}

export function createSignatureLookup(paths: SignatureLookupPaths, address: MirrorAddress): SignatureLookup {
  const file = paths.signatureLookupFile;
  const remove = async (): Promise<void> => {
    await rm(file, { force: true }).catch((error: unknown) => {
      throw writeError(file, error);
    });
  };
  const wanted = async (): Promise<string | undefined> => {
    try {
      const files = await walkFiles(paths.policiesDirectory, { recursive: false });
      for (const path of [paths.policyPath, ...files.filter((one) => one.endsWith('.json'))])
        if (demandsSigstore((await readIfPresent(path)) ?? '')) return renderSignatureLookup(address);
    } catch {
      return renderSignatureLookup(address); // what can't be read may demand them
    }
    return undefined;
  };
  return {
    remove,
    write: async () => {
      const text = await wanted();
      if (text === undefined) await remove();
      else await writeDurably({ path: file }, text);
    },
    isCurrent: async () => (await readIfPresent(file)) === (await wanted()),
  };
}

export function renderSignatureLookup({ authority, token }: MirrorAddress): string {
  return `# Written by stickpin for the images of bundles, and removed with them. Don't edit.
# A policy of the node demands sigstore signatures; those that travel with a bundle lie beside its images.
docker:
  ${JSON.stringify(`${authority}/${token}`)}:
    use-sigstore-attachments: true
`;
}

/** Any `sigstoreSigned` of containers-policy.json(5). A file that is not JSON demands nothing. */
export function demandsSigstore(policy: string): boolean {
  try {
    return hasSigstoreSigned(JSON.parse(policy));
  } catch {
    return false;
  }
}

function hasSigstoreSigned(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if ('type' in value && value.type === 'sigstoreSigned') return true;
  return Object.values(value).some(hasSigstoreSigned);
}
