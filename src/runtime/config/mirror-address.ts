/** Where our registry answers: what every mirror points to. */
export interface MirrorAddress {
  /** `127.0.0.1:<port>` */
  readonly authority: string;
  /** 32 hex digits that every path begins with. */
  readonly token: string;
}

/** The base of every path of our registry: `http://127.0.0.1:5000/v2/<token>`. */
export function mirrorBaseUrl({ authority, token }: MirrorAddress): string {
  return `http://${authority}/v2/${token}`;
}
