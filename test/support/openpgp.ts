import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What the OpenPGP signature of a release image signs. */
export const signedText = (digest: string, type = 'atomic container signature') =>
  JSON.stringify({
    critical: {
      image: { 'docker-manifest-digest': digest },
      type,
      identity: { 'docker-reference': 'quay.io/openshift-release-dev/ocp-release:4.13.7-x86_64' },
    },
    optional: { creator: 'tests' },
  });

/** An OpenPGP key in a folder of its own. Made and used by `gpg`. */
export class OpenPgpKey {
  /**
   * @param options of `gpg`, for all that it does
   * @param expires as gpg reads it
   */
  constructor(
    private readonly folder: string,
    private readonly options: readonly string[] = [],
    expires = 'never',
  ) {
    mkdirSync(folder, { mode: 0o700 });
    this.gpg('--passphrase', '', '--quick-gen-key', 'tests <tests@example.com>', 'ed25519', 'sign', expires);
  }

  /** The public key. */
  export(...more: readonly string[]): Buffer {
    return this.gpg(...more, '--export');
  }

  /** As `gpg --sign` makes it: compressed, with the text inside. */
  sign(text: string): Buffer {
    writeFileSync(join(this.folder, 'text'), text);
    this.gpg('--output', join(this.folder, 'signed'), '--sign', join(this.folder, 'text'));
    const signed = readFileSync(join(this.folder, 'signed'));
    rmSync(join(this.folder, 'signed'));
    return signed;
  }

  /** Ends the agent that `gpg` has started. */
  [Symbol.dispose](): void {
    execFileSync('gpgconf', ['--homedir', this.folder, '--kill', 'all'], { stdio: 'ignore' });
  }

  private gpg(...args: readonly string[]): Buffer {
    return execFileSync('gpg', ['--homedir', this.folder, '--batch', '--quiet', ...this.options, ...args], {
      stdio: 'pipe',
    });
  }
}
