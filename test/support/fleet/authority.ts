import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A certificate with its key, both PEM. */
export interface TestCertificate {
  /** The certificate, and after it those between it and its authority. */
  readonly certificate: string;
  readonly key: string;
}

/** What a certificate is made of. */
export interface CertificateOptions {
  /** As `openssl -subj` takes it: `/O=system:nodes/CN=system:node:worker-1`. */
  readonly subject: string;
  /** Hours from now; default -1 and 24. */
  readonly fromHours?: number;
  readonly toHours?: number;
  /** Extended key usages; default `clientAuth`, as a kubelet's. */
  readonly use?: string;
}

/** An authority that signs certificates as that of a cluster does. */
export interface TestAuthority {
  /** Its own certificate, PEM. */
  readonly certificate: string;
  /** A certificate of a kubelet. */
  node(name: string, options?: Omit<CertificateOptions, 'subject'>): TestCertificate;
  sign(options: CertificateOptions): TestCertificate;
  /** An authority below this one; what it signs brings its certificate along. */
  intermediate(name: string): TestAuthority;
}

const CONFIG = `
[ca]
default_ca = own
[own]
database = index.txt
rand_serial = yes
new_certs_dir = .
default_md = sha256
policy = anything
unique_subject = no
copy_extensions = none
[anything]
organizationName = optional
commonName = supplied
[req]
distinguished_name = name
[name]
`;

/** Makes an authority with its files below `folder`. Needs openssl. */
export function createAuthority(
  folder: string,
  name: string,
  times: Pick<CertificateOptions, 'fromHours' | 'toHours'> = {},
): TestAuthority {
  const at = authorityFolder(folder);
  const own = signed(at, { ...times, subject: `/CN=${name}` }, 'ca');
  return authorityOf(folder, at, own, '');
}

function authorityFolder(folder: string): string {
  mkdirSync(folder, { recursive: true });
  const at = mkdtempSync(join(folder, 'authority-'));
  writeFileSync(join(at, 'index.txt'), '');
  writeFileSync(join(at, 'openssl.cnf'), CONFIG);
  return at;
}

function authorityOf(folder: string, at: string, own: TestCertificate, chain: string): TestAuthority {
  const sign = (options: CertificateOptions, kind: 'leaf' | 'ca' = 'leaf') => {
    writeFileSync(join(at, 'ca.crt'), own.certificate);
    writeFileSync(join(at, 'ca.key'), own.key);
    const made = signed(at, options, kind, true);
    return { certificate: `${made.certificate}${chain}`, key: made.key };
  };
  return {
    certificate: own.certificate,
    sign,
    node: (name, options) => sign({ ...options, subject: `/O=system:nodes/CN=system:node:${name}` }),
    intermediate: (name) => {
      const below = sign({ subject: `/CN=${name}` }, 'ca');
      return authorityOf(folder, authorityFolder(folder), below, below.certificate);
    },
  };
}

function signed(
  at: string,
  { subject, fromHours = -1, toHours = 24, use = 'clientAuth' }: CertificateOptions,
  kind: 'leaf' | 'ca',
  isByAuthority = false,
): TestCertificate {
  const openssl = (...words: string[]) =>
    execFileSync('openssl', words, { cwd: at, stdio: ['ignore', 'ignore', 'pipe'] });
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  openssl('req', '-new', '-config', 'openssl.cnf', ...curve, '-keyout', 'new.key', '-out', 'new.csr', '-subj', subject);
  const uses = kind === 'ca' ? 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n' : '';
  const leafUses = `basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature,keyEncipherment\nextendedKeyUsage=${use}\n`;
  writeFileSync(join(at, 'extensions.cnf'), kind === 'ca' ? uses : leafUses);
  const signer = isByAuthority ? ['-cert', 'ca.crt', '-keyfile', 'ca.key'] : ['-selfsign', '-keyfile', 'new.key'];
  const times = ['-startdate', timeText(fromHours), '-enddate', timeText(toHours)];
  openssl('ca', '-batch', '-notext', '-config', 'openssl.cnf', '-extfile', 'extensions.cnf', ...signer, ...times, '-in', 'new.csr', '-out', 'new.crt'); // biome-ignore format: one command
  return { certificate: readFileSync(join(at, 'new.crt'), 'utf8'), key: readFileSync(join(at, 'new.key'), 'utf8') };
}

/** `20260101120000Z` */
function timeText(hours: number): string {
  return `${new Date(Date.now() + hours * 3_600_000).toISOString().slice(0, 19).replaceAll(/[-:T]/g, '')}Z`;
}
