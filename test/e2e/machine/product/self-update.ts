import { join } from 'node:path';
import { parsePublicKey } from '../../../../src/bundle/keys/keys.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { makeSampleBundle, type SampleKey } from '../../../support/bundles/sample-bundle.ts';
import { remadeDeb } from '../../../support/packages/make-packages.ts';
import type { Machine } from '../machine.ts';
import { makeStick } from '../qemu/stick.ts';
import { stickpinOn } from './node.ts';

const UNIT = 'stickpin-self-update.service';

/** The folder of the update, see docs/self-update.md. */
export const UPDATE_STATE = '/var/lib/stickpin-update';

/** What lets releases of stream `stickpin` by this key update stickpin, as TOML text. */
export function selfUpdateSettings(publicPem: string): string {
  const { keyId } = parsePublicKey(publicPem, 'the key');
  return `[hooks]\nactivated = "${UNIT}"\n[streams.stickpin]\nunits = ["${UNIT}"]\nunit_keys = ["${keyId}"]\n`;
}

/** Of the release of stickpin with this version. */
export function phaseOfUpdate({ bundles }: StatusReport, version: string): string | undefined {
  return bundles.find((bundle) => bundle.name === 'stickpin' && bundle.version === version)?.phase;
}

/** An update of stickpin on a stick. */
interface Update {
  /** The package that is installed, a file of the host. */
  readonly like: string;
  readonly directory: string;
  readonly key: SampleKey;
  readonly version: string;
  readonly sequence: number;
  /** Takes the place of the daemon. */
  readonly daemon?: string;
}

/** Brings a release of stickpin, and takes the stick out once it is activated. */
export async function bringUpdate(
  machine: () => Machine,
  { like, directory, key, version, sequence, daemon }: Update,
): Promise<void> {
  const { path, name } = await remadeDeb(like, directory, version, daemon);
  const folder = join(directory, version);
  const attachments = [{ path, name, mediaType: 'application/octet-stream' }];
  const dir = join(folder, 'stickpin');
  await makeSampleBundle({ dir, name: 'stickpin', version, sequence, keys: [key], images: [], attachments });
  const plugged = await machine().plug(await makeStick({ image: `${folder}.img`, folder }));
  await stickpinOn(machine).until(`${version} to be activated`, (report) =>
    ['activated', 'proven'].includes(phaseOfUpdate(report, version) ?? ''),
  );
  await plugged.unplug();
}
