import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A certificate of 127.0.0.1 that nobody knows, in PEM, and its key. Needs openssl. */
export function selfSigned(folder: string): { readonly key: string; readonly cert: string } {
  const [key, cert] = [join(folder, 'tls.key'), join(folder, 'tls.crt')];
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1'];
  const forHost = ['-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', [...made, ...forHost, '-keyout', key, '-out', cert], { stdio: 'pipe' });
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
}
