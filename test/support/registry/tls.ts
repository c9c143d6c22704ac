import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A key and a certificate of its own authority, for 127.0.0.1. Needs openssl. */
export interface OwnTls {
  readonly key: string;
  readonly certificate: string;
  /** Both in PEM. */
  readonly pem: { readonly key: string; readonly cert: string };
}

/** As files in a folder. */
export function makeTls(folder: string): OwnTls {
  const [key, certificate] = [join(folder, 'tls.key'), join(folder, 'tls.crt')];
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1'];
  const names = ['-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', [...made, ...names, '-keyout', key, '-out', certificate], { stdio: 'pipe' });
  return { key, certificate, pem: { key: readFileSync(key, 'utf8'), cert: readFileSync(certificate, 'utf8') } };
}
