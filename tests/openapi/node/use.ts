// Uses the types that openapi-typescript makes of the documents: tokens, accounts and a page of
// trades for clients, and the list of users for administrators.
import type { paths, components } from './openapi.js';
import type { paths as admin } from './admin.js';

type Answer<O> = O extends { responses: { 200: { content: { 'application/json': infer A } } } } ? A : never;

export const login: components['schemas']['TokenRequest'] = { grant_type: 'password', username: 'demo', password: 'demo' };

export function access(answer: Answer<paths['/auth/token']['post']>): string {
  return answer.data.access_token;
}

export function numbers(answer: Answer<paths['/broker/accounts']['get']>): string[] {
  return answer.data.accounts.map((account) => account.number);
}

export function prices(answer: Answer<paths['/market/trades']['get']>): number[] {
  return answer.data.trades.flatMap((trade) => (trade.type === 'T' ? [trade.P] : []));
}

export function names(answer: Answer<admin['/admin/users']['get']>): string[] {
  return answer.data.users.map((user) => user.username);
}
